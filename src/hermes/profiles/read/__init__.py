"""Readers of profiler formats: each turns captures into canonical tables, without judging the numbers."""
