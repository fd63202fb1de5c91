"""How much of a leaf can be won at most: all that is idle, waits or copies, and of products what exceeds the roof."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import OperatorCost
from hermes.model.leaf import Leaf
from hermes.model.limit import Limit
from hermes.profiles.tree.kinds import WORK

START = Limit(
    value=7_000, unit="ns of each product beside its time at the roof",
    source="published sweeps over sizes: products of 512 to 2048 rows take 5 to 9 us longer",
)  # fmt: skip
"""What starting and ending a product takes, whatever its size: small ones reach little of the roof on any chip."""
OTHER_PIPE = Limit(
    value=0.1, unit="of the roof", source="published sweeps: products of 512 rows and more reach this on any chip"
)
"""Below this a pipe that is busy all the time is one of scalars or copies."""
_NEVER = frozenset({Leaf.START, Leaf.END, Leaf.PROFILER})
"""What no cure of the job wins: a run without the profiler has none of it."""


class Attainable:
    """The curable part of leaves, told by the operators of a job and their roofs; `aim` is what libraries reach."""

    def __init__(self, operators: Iterable[OperatorCost], aim: float) -> None:
        lost: dict[str, float] = {}
        whole: dict[str, int] = {}
        for row in operators:
            beyond = _beyond(row, aim)
            if beyond is not None:
                lost[row.operator] = lost.get(row.operator, 0.0) + beyond
                whole[row.operator] = whole.get(row.operator, 0) + row.ns
        self._lost = {name: lost[name] / whole[name] for name in lost if whole[name]}

    def __call__(self, leaf: Leaf, what: str, ns: int) -> int | None:
        """How many of `ns` nanoseconds can be won; None for work of the device whose roof is not known."""
        if leaf in _NEVER:
            return 0
        if leaf not in WORK:
            return ns
        share = self._lost.get(what)
        return None if share is None else round(ns * share)


def _beyond(row: OperatorCost, aim: float) -> float | None:
    """Nanoseconds beyond what the chip attains, where a roof or counters tell.

    Counters of pipes go first, unless a product is so far below its roof that the busy pipe is not that of products.
    """
    if row.kind not in MATRIX:
        return None
    if row.losses.pipe_ns is not None and (row.roof_share is None or row.roof_share >= OTHER_PIPE.value):
        return float(min(row.ns, row.losses.pipe_ns + (row.losses.blocks_ns or 0)))
    if row.roof_share is None or not row.median_ns:
        return None
    attained = row.roof_share / aim + START.value / row.median_ns
    return row.ns * max(0.0, 1 - attained)
