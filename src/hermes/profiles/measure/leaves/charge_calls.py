"""Charges idle time that belongs to no call to the call that the host is in: silence to a copy, latency to a wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hermes.base.intervals import union_of_intervals
from hermes.knowledge.blocking_calls import LONG_COPY_NS
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.call_trees import NUMBER, CallTrees
from hermes.profiles.measure.leaves.labelled_stretches import found_in, stretches_outside
from hermes.profiles.measure.leaves.leaf_stretches import AT, LeafStretches, join_stretches
from hermes.profiles.measure.leaves.nesting import NONE, Ints

Doing = Callable[[Ints, Ints, Ints, Ints], LeafStretches]
"""Tells a thread's work in stretches, from their starts, ends, threads and labels."""


def charge_waits(latency: LeafStretches, thread: Ints, calls: CallTrees, doing: Doing) -> LeafStretches:
    """Charge the latency of launches to the call in which the host waits for the device meanwhile; `thread` is by gap.

    A host that waits launches nothing ahead, so the latency of the next launch shows too.
    """
    waits = np.flatnonzero(calls.waiting)
    if not len(waits) or not len(latency):
        return latency
    begin = calls.recorded("start_ns", which=waits)["start_ns"].to_numpy()
    some = union_of_intervals(begin, begin + (calls.end - calls.start)[waits])
    stop = latency.start + latency.ns
    pieces, _ = found_in(latency.start, stop, some.starts, some.ends)
    left = stretches_outside(latency.start, stop, some.starts, some.ends)
    gap = latency.of[pieces.of]
    # The thread that launched, or the one asked for it, may do something else while another thread waits.
    told = doing(pieces.start, pieces.end, thread[gap], np.arange(len(pieces)))
    waited = (told.what != NONE) & calls.waiting[told.what]
    own = told.at(waited)
    other = told.at(~waited)
    return join_stretches([
        replace(latency.at(left.of), start=left.start, ns=left.lengths),
        replace(own, of=gap[own.of]),
        replace(latency.at(pieces.of[other.of]), start=other.start, ns=other.ns),
    ])  # fmt: skip


def charge_copies(parts: LeafStretches, calls: CallTrees) -> LeafStretches:
    """Charge silence of the device during a long copying call of the host to the call: a copy occupies the driver."""
    long_ = calls.end - calls.start >= LONG_COPY_NS
    copies = np.flatnonzero(calls.of_kind(*RUNTIME_KINDS) & calls.copying & long_)
    silent = parts.leaf == NUMBER[Leaf.SILENT]
    if not len(copies) or not silent.any():
        return parts
    begin = calls.recorded("start_ns", which=copies)["start_ns"].to_numpy()
    order = np.argsort(begin, kind="stable")
    copies, begin = copies[order], begin[order]
    # If threads copy at the same time, the first call keeps the time.
    end = np.maximum.accumulate(begin + (calls.end - calls.start)[copies])
    begin = np.maximum(begin, np.append(begin[:1], end[:-1]))
    some = end > begin
    copies, begin, end = copies[some], begin[some], end[some]
    quiet = parts.at(silent)
    stop = quiet.start + quiet.ns
    pieces, at = found_in(quiet.start, stop, begin, end)
    count = len(pieces)
    held = LeafStretches(
        start=pieces.start, ns=pieces.lengths, of=quiet.of[pieces.of],
        leaf=np.full(count, NUMBER[Leaf.BLOCKING_COPY]), how=np.full(count, AT[How.CALL]), what=copies[at],
        site=copies[at],
    )  # fmt: skip
    left = stretches_outside(quiet.start, stop, begin, end)
    rest = replace(quiet.at(left.of), start=left.start, ns=left.lengths)
    return join_stretches([parts.at(~silent), held, rest])
