"""Measures of steps: their split, what ran beside what, the longest operators."""
