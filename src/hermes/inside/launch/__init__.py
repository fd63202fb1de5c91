"""`hermes run`: becomes the command, with the standard library alone; what watches it is beside it, and never above."""
