"""Measures of steps: their split, overlap, and the longest kernels, operators and calls."""
