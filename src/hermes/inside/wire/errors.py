"""What can be wrong with what a job shares; free of other rooms, since it is loaded into the training process."""

from __future__ import annotations


class LiveError(Exception):
    """A segment, ring or log cannot be used; the text says which and why, in one line."""


class LogInUseError(LiveError):
    """Another process writes the log."""
