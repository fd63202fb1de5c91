"""Captures that no tool has exported yet: what can be read of them, and how they are exported in a process aside."""
