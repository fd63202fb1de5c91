"""Benchmarks of judgement: the zoo of programs with planted causes."""
