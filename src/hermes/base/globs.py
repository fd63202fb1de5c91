"""Names inside patterns: a name may hold the signs that a pattern gives a meaning."""

from __future__ import annotations

import re


def literal(name: str) -> str:
    """The pattern of `fnmatch` that matches this name alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)
