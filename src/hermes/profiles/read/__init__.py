"""Formats in, canonical tables out; no opinion about what the numbers mean."""
