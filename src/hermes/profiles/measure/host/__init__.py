"""Measures of the host: calls, dispatch, stalls."""
