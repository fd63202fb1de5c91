"""Rules about input."""
