"""Computes the work of one operator from its shapes and types: operations, bytes, and a chip's least time."""
