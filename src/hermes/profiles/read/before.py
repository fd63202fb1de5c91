"""What Hermes' own capture says of the steps before it, as rows of the table `setting`."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.knowledge.host_settings import BEFORE

_MOST = 2**62


def before_rows(told: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Source, name and value; what is no whole number in a sound range is no row. `told` is the capture's note."""
    return _rows(told.get("before"), "")


def end_rows(told: object) -> list[tuple[str, str, str]]:
    """The same of what it says at its end, of the captured steps: names begin with `captured_`."""
    return _rows(told, "captured_")


def _rows(means: object, head: str) -> list[tuple[str, str, str]]:
    if not isinstance(means, dict):
        return []
    return [
        (BEFORE, head + name, str(value))
        for name, value in means.items()
        if isinstance(name, str) and isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    ]
