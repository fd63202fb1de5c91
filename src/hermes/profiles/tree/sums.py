"""Makes the verdict of captures that hold sums alone: what the device's time is, which calls the host made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hermes.base.message import Message
from hermes.knowledge.ascend_codes import COLLECTIVE_TYPES
from hermes.knowledge.blocking_calls import is_copy, reads_back, waits_for_reports
from hermes.knowledge.collectives import collective_of_kernel
from hermes.knowledge.leaf_names import leaf_of_call, leaf_of_operator
from hermes.knowledge.recorders import UNKNOWN_ON_ASCEND, Recorder
from hermes.model.leaf import HOST_WAITS, Leaf
from hermes.model.sum_measures import RecordedSum
from hermes.profiles.tree import messages as say_that

_SHOWN, _NAMED = 3, 0.3
"""How many kinds of work are named, and the least share of its kind that a name needs."""


def of_sums(sums: Sequence[RecordedSum], recorder: Recorder | None) -> Message | None:
    """The verdict from sums; None without any. `recorder` tells which files would give the timeline."""
    device, host = _of_device([row for row in sums if row.side == "device"]), of_host(sums)
    if device is None and host is None:
        return None
    by = recorder or UNKNOWN_ON_ASCEND
    return say_that.sums(device=device, host=host, timeline=by.timeline, again=by.again or None)


def _waits(name: str) -> bool:
    """Whether a call waits for the device or for its reports: such time is no work of the host."""
    return waits_for_reports(name) or reads_back(name) or leaf_of_call(name) in HOST_WAITS


def _leaf(row: RecordedSum) -> Leaf:
    """The leaf of device work, by the unit that did it or by its name."""
    if row.detail.upper() in COLLECTIVE_TYPES or collective_of_kernel(row.name):
        return Leaf.COMMUNICATION
    return Leaf.EXPOSED_COPY if is_copy(row.name) else leaf_of_operator(row.name)


def _of_device(rows: Sequence[RecordedSum]) -> Message | None:
    """The message part with the largest kinds of device work."""
    if not rows:
        return None
    kinds, names = Counter[Leaf](), dict[Leaf, Counter[str]]()
    for row in rows:
        leaf = _leaf(row)
        kinds[leaf] += row.total_ns
        names.setdefault(leaf, Counter())[row.name] += row.total_ns
    whole = sum(kinds.values())
    parts = []
    for leaf, ns in kinds.most_common(_SHOWN):
        name, most = names[leaf].most_common(1)[0]
        parts.append(say_that.part(share=ns / whole, leaf=leaf.message, what=name if most >= _NAMED * ns else None))
    return say_that.sums_of_device(ns=whole, parts=parts)


def of_host(sums: Sequence[RecordedSum]) -> Message | None:
    """The message part with the longest calls that do not wait; calls of different layers are not added up."""
    calls = Counter[str]()
    for row in sums:
        if row.side == "host" and not _waits(row.name):
            calls[row.name] += row.total_ns
    said = [say_that.sum_of_call(name=name, ns=ns) for name, ns in calls.most_common(_SHOWN)]
    return say_that.sums_of_host(calls=said) if said else None
