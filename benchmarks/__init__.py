"""Benchmarks of Hermes against its budgets and its peers; `python benchmarks/run.py --help` says how to run them."""
