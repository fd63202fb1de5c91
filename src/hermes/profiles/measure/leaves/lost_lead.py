"""Charges dispatch time to the blocking call that lost the host's lead over the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hermes.base.intervals import Intervals, covered_lengths
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How
from hermes.profiles.measure.leaves.call_trees import NUMBER, CallTrees
from hermes.profiles.measure.leaves.labelled_stretches import found_in
from hermes.profiles.measure.leaves.leaf_stretches import AT, LeafStretches, join_stretches
from hermes.profiles.measure.leaves.nesting import NONE, Ints

_HOLD_NS = 2_000
"""A shorter wait, in ns, finds the device done."""


def charge_lost_lead(parts: LeafStretches, calls: CallTrees, busy: Intervals) -> LeafStretches:
    """Charge dispatch time that the host's lead would have hidden to the last call that waited for the device.

    A call that waits while the device works loses as much lead as the device works during it. Dispatch time that shows
    later pays that lead back: to the latest such call first, and to each call no more than the device worked during it.
    """
    waits = calls.waiting
    held = np.flatnonzero(waits & (calls.end - calls.start > _HOLD_NS))
    # A wait inside another wait counts as the outer one.
    inner = calls.parent[held]
    held = held[~((inner != NONE) & waits[np.maximum(inner, 0)])]
    if not len(held) or not len(parts):
        return parts
    begin = calls.recorded("start_ns", which=held)["start_ns"].to_numpy()
    order = np.argsort(begin, kind="stable")
    held, begin = held[order], begin[order]
    parts = parts.at(np.argsort(parts.start, kind="stable"))
    demand = np.where(parts.leaf == NUMBER[Leaf.DISPATCH], parts.ns, 0)
    before = np.searchsorted(begin, parts.start + parts.ns)
    payers, paid, behind = _payers(
        covered_lengths(busy, begin, begin + (calls.end - calls.start)[held]), _sums(before, demand, len(held) + 1)[1:]
    )
    taken = _first_of(demand, before, _sums(behind + 1, paid, len(held) + 1))
    done, due = np.cumsum(taken), np.cumsum(paid)
    pieces, which = found_in(done - taken, done, due - paid, due)
    keep = pieces.lengths > 0
    at, call = pieces.of[keep], held[payers[which[keep]]]
    more = LeafStretches(
        start=parts.start[at] + (pieces.start - (done - taken)[pieces.of])[keep], ns=pieces.lengths[keep],
        of=parts.of[at], leaf=calls.runtime_leaf[call], how=np.full(len(at), AT[How.LOST_LEAD]), what=call, site=call,
    )  # fmt: skip
    return join_stretches([replace(parts, start=parts.start + taken, ns=parts.ns - taken), more])


def _payers(lost: Ints, asked: Ints) -> tuple[Ints, Ints, Ints]:
    """The payments of waits for dispatch time: the index of the paying wait, the ns, and the wait before."""
    rows: list[tuple[int, int, int]] = []
    able: list[list[int]] = []
    for place, (lead, due) in enumerate(zip(lost.tolist(), asked.tolist(), strict=True)):
        if lead:
            able.append([place, lead])
        while due and able:
            last = able[-1]
            part = min(last[1], due)
            rows.append((last[0], part, place))
            due -= part
            last[1] -= part
            if not last[1]:
                able.pop()
    payer, paid, behind = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return payer, paid, behind


def _sums(places: Ints, values: Ints, count: int) -> Ints:
    """The sum of values at each index."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, places, values)
    return sums


def _first_of(values: Ints, groups: Ints, limits: Ints) -> Ints:
    """For each value, the part within its group's limit, if values of a group are adjacent and stacked."""
    stacked = np.cumsum(values)
    first = np.searchsorted(groups, np.arange(len(limits)))
    below = np.append([0], stacked)[first]
    left: Ints = np.clip(limits[groups] - (stacked - values - below[groups]), 0, values)
    return left
