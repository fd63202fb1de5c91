"""How sure a finding is, by what it rests on: one table with sources. It orders and is shown; nothing branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Confidence(NamedTuple):
    """The share of such findings that is right, and where that comes from."""

    value: float
    source: str


_FIRST_CONTACT = (
    "docs/precision.md, Figures: at first contact with 85 planted faults 62 answers were right (28 of 43, 34 of 42)"
)

CONFIDENCE: Final[Mapping[str, Confidence]] = {
    "precision.exact": Confidence(
        0.95, f"above the mean of {_FIRST_CONTACT}, since all before agrees in every bit; not counted apart"
    ),
    "precision.rounding": Confidence(0.73, _FIRST_CONTACT),
    "precision.near": Confidence(
        0.5, f"below the mean of {_FIRST_CONTACT}, since it is little more than rounding; not counted apart"
    ),
    "precision.setup": Confidence(1.0, "both values stand in the snapshots"),
    "precision.replay": Confidence(1.0, "computed again in float64 from recorded inputs"),
}  # fmt: skip


def confidence(name: str) -> float:
    """How sure a finding is that rests on this; raises `KeyError` for what the table does not hold."""
    return CONFIDENCE[name].value
