"""Measures of communication."""
