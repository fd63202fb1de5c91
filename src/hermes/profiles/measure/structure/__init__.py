"""Measures of a job's layout over its ranks: pipeline, balance, modules, ranges and the rank matrix."""
