"""Measures each step inside the training process."""
