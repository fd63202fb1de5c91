"""Suggests the closest existing names for a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_MOST = 5
_ALIKE = 0.4
# Comparing two names costs the product of their lengths, and an input may hold any number of names.
_COMPARED = 2_000


def closest(asked: str, names: Sequence[str], most: int = _MOST) -> list[str]:
    """The `most` names most like the name asked for; if fewer are alike, other names fill the list."""
    small = {name.lower(): name for name in reversed(names[:_COMPARED])}
    alike = [small[one] for one in difflib.get_close_matches(asked.lower(), small, most, _ALIKE)]
    return list(dict.fromkeys([*alike, *names]))[:most]
