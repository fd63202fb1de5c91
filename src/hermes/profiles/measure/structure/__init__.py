"""Measures of how a job is laid out over its ranks."""
