"""Measures of the user's code: which functions and lines take the step."""
