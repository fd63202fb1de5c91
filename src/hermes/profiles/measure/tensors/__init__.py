"""Measures of what shapes and types of tensors tell."""
