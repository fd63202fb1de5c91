"""A number that decides, with its unit and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number that decides, with its unit and where it comes from."""

    value: float
    unit: str
    source: str
