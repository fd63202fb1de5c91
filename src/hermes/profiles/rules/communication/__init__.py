"""Rules about communication."""
