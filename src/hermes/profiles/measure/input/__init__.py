"""Measures of the input pipeline."""
