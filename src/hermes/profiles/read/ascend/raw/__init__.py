"""Reads captures that no tool has exported yet, as far as possible, and exports them in a separate process."""
