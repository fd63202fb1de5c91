"""Computes the largest possible gain of a leaf: all of idle, waits and copies; a product's excess over its roof."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import SWITCHED, ChipUsed, OperatorCost
from hermes.model.leaf import Leaf
from hermes.model.limit import Limit
from hermes.profiles.tree.leaf_kinds import WORK
from hermes.profiles.tree.leaves_of_job import NEVER

START = Limit(
    value=7_000, unit="ns of each product beside its time at the roof",
    source="published sweeps over sizes: products of 512 to 2048 rows take 5 to 9 us longer",
)  # fmt: skip
"""The time in ns that starting and ending a product takes, which keeps small products far from the roof."""
OTHER_PIPE = Limit(
    value=0.1, unit="of the roof", source="published sweeps: products of 512 rows and more reach this on any chip"
)
"""The share of the roof below which a pipe that is always busy is a pipe of scalars or copies."""


class AttainableGain:
    """Tells how much of a leaf can be gained, by operators and their roofs; `aim` is the share that libraries reach."""

    def __init__(self, operators: Iterable[OperatorCost], aim: float, chips: Iterable[ChipUsed] = ()) -> None:
        by_chip = {chip.chip: chip for chip in chips if chip.chip is not None}
        lost: dict[str, float] = {}
        whole: dict[str, int] = {}
        for row in operators:
            beyond = _beyond(row, aim)
            chip = by_chip.get(row.chip or "")
            if chip is not None and row.precision == "fp32" and (saved := chip.saved_in(row, SWITCHED)):
                beyond = max(beyond or 0.0, row.ns * saved)
            if beyond is not None:
                lost[row.operator] = lost.get(row.operator, 0.0) + beyond
                whole[row.operator] = whole.get(row.operator, 0) + row.ns
        self._lost = {name: lost[name] / whole[name] for name in lost if whole[name]}

    def __call__(self, leaf: Leaf, what: str, ns: int) -> int | None:
        """How many of `ns` nanoseconds can be gained; None for device work whose roof is unknown."""
        if leaf in NEVER:
            return 0
        if leaf not in WORK:
            return ns
        share = self._lost.get(what)
        return None if share is None else round(ns * share)


def _beyond(row: OperatorCost, aim: float) -> float | None:
    """Nanoseconds of an operator beyond what the chip attains, if a roof or counters tell; else None.

    Counters of pipes come first, unless a product is so far below its roof that the busy pipe is not the pipe of
    products. Of work that is no product, only cores without work tell how much can be gained.
    """
    idle = row.losses.blocks_ns or 0
    if row.kind not in MATRIX:
        most = min(idle, row.ns - START.value * row.calls)
        return float(most) if most > 0 else None
    if row.losses.pipe_ns is not None and (row.roof_share is None or row.roof_share >= OTHER_PIPE.value):
        return float(min(row.ns, row.losses.pipe_ns + idle))
    if row.roof_share is None or not row.median_ns:
        return None
    attained = row.roof_share / aim + START.value / row.median_ns
    return row.ns * max(0.0, 1 - attained)
