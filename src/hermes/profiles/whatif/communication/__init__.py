"""Searches the sizes, order and start of collectives that make a step shortest."""
