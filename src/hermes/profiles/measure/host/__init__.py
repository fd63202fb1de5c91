"""Measures of the host: its calls, dispatch and settings."""
