"""Benchmarks of Hermes' answers on recorded profiles, on programs with planted causes, and on published cases."""
