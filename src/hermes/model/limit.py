"""The type of a rule's threshold: a number with its unit and its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A threshold of a rule: its value, its unit and the source of the number."""

    value: float
    unit: str
    source: str
