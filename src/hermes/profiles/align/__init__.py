"""Brings all ranks to one clock and one step axis."""
