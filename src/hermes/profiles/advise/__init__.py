"""Advice: ranks findings, matches known cases, orders actions, and plans the next capture."""
