"""Compares the first answer about recorded profiles with that of an expert; `python -m bench.judgement`."""
