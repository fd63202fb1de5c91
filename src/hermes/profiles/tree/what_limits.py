"""Says what limits the work of a leaf: idle cores, a slow type, the busiest unit of the cores, or the roof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hermes.base.message import Message
from hermes.model.compute_measures import SWITCHED, ChipUsed, CoreUnit, OperatorCost
from hermes.model.limit import Limit
from hermes.profiles.tree import messages as say_that
from hermes.profiles.tree.leaf_kinds import MOSTLY, LeafKind

IDLE_CORES = Limit(
    value=0.5, unit="of the time of cores", source="half of the cores idle: a second kernel of this size would fit"
)
BUSY_UNIT = Limit(
    value=0.5, unit="of a kernel's time", source="a unit that is busy for most of the time is what a kernel waits for"
)
_UNITS: dict[CoreUnit, Message] = {
    "cube": say_that.UNIT_CUBE, "vector": say_that.UNIT_VECTOR, "scalar": say_that.UNIT_SCALAR,
    "loading": say_that.UNIT_LOADING, "storing": say_that.UNIT_STORING,
}  # fmt: skip


class WhatLimits:
    """Tells what limits the operators of a leaf, by their counters, types and roofs."""

    def __init__(self, operators: Iterable[OperatorCost], chips: Iterable[ChipUsed] = ()) -> None:
        self._chips = {chip.chip: chip for chip in chips if chip.chip is not None}
        self._rows: dict[str, list[OperatorCost]] = {}
        for row in operators:
            self._rows.setdefault(row.operator, []).append(row)

    def __call__(self, kind: LeafKind) -> tuple[Message, ...]:
        """What limits the work of a kind, each said once; empty if nothing tells, or for no work of a device."""
        if kind.leaf.part != "compute":
            return ()
        rows = [row for name in {row.what for row in kind.rows} for row in self._rows.get(name, ())]
        whole = sum(row.ns for row in rows)
        if not whole:
            return ()
        found = (_cores(rows, whole), self._type(rows, whole), _unit(rows, whole))
        return tuple(one for one in found if one is not None)

    def _type(self, rows: Sequence[OperatorCost], whole: int) -> Message | None:
        """The type of most of the work, if a setting makes the chip compute in a faster one."""
        wide = [row for row in rows if row.precision == "fp32" and self._faster(row)]
        return say_that.LIMIT_TYPE if sum(row.ns for row in wide) >= MOSTLY * whole else None

    def _faster(self, row: OperatorCost) -> bool:
        chip = self._chips.get(row.chip or "")
        return chip is not None and chip.saved_in(row, SWITCHED) > 0


def _cores(rows: Sequence[OperatorCost], whole: int) -> Message | None:
    """The share of the cores without work, if that is most of them."""
    idle = sum(row.losses.blocks_ns or 0 for row in rows) / whole
    return say_that.limit_cores(share=idle) if idle >= IDLE_CORES.value else None


def _unit(rows: Sequence[OperatorCost], whole: int) -> Message | None:
    """The busiest unit of the cores, if it is busy for most of the time."""
    busy = Counter[CoreUnit]()
    for row in rows:
        if row.busiest is not None:
            busy[row.busiest] += round(row.ns * (row.busiest_share or 0.0))
    unit, ns = max(busy.items(), key=lambda one: one[1], default=(None, 0))
    if unit is None or ns < BUSY_UNIT.value * whole:
        return None
    return say_that.limit_unit(unit=_UNITS[unit], share=ns / whole)
