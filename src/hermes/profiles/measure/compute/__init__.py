"""Measures of compute: kernels, their cost and their roofline."""
