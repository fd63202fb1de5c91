"""Measures of communication: arrivals, transfers, links, groups and stragglers."""
