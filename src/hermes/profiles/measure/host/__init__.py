"""Measures of the host: its calls, dispatch, stalls and settings."""
