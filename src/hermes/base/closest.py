"""Which of the names that there are somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_MOST = 5
_ALIKE = 0.4
# Comparing takes the product of the lengths: an input may hold any number of names.
_COMPARED = 2_000


def closest(asked: str, names: Sequence[str], most: int = _MOST) -> list[str]:
    """The names most like the one asked for, then the first of the others: at most so many."""
    small = {name.lower(): name for name in reversed(names[:_COMPARED])}
    alike = [small[one] for one in difflib.get_close_matches(asked.lower(), small, most, _ALIKE)]
    return list(dict.fromkeys([*alike, *names]))[:most]
