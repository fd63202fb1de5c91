"""Escapes names for glob patterns: a name may hold `*`, `?` and `[`."""

from __future__ import annotations

import re


def literal_pattern(name: str) -> str:
    """The pattern of `fnmatch` that matches this name alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)
