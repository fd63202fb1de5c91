"""Compares two reports: what changed, and which changes may be chance."""
