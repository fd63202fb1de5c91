"""Measures of tensor shapes and types: padding, dense gradients, concatenations and mixed layouts."""
