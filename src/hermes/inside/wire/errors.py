"""Errors of the data that a job shares. Imports no other package, since the training process loads this module."""

from __future__ import annotations


class LiveError(Exception):
    """A segment, ring or log cannot be used; the text says which one and why, in one line."""


class LogInUseError(LiveError):
    """A step log cannot be written, because another process writes it."""
