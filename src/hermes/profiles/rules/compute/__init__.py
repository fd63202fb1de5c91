"""Rules about compute."""
