"""Implements `hermes run`: the process becomes the command, and watching processes run beside it."""
