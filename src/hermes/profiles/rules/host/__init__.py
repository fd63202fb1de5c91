"""Rules about host."""
