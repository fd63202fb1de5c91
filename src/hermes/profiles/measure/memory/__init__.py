"""Measures of memory: peaks, growth, holders, headroom and failed requests."""
