"""Activations are computed again in the backward pass.

## What it detects

The rule finds kernels that the backward pass launches to compute forward operators a second time (activation
checkpointing). The rule counts the time of these kernels in the typical step, as a share of the window. On a job
without a device, the rule counts the time of recomputed operators on the host. Recomputed operators are forward
operators with their own sequence number inside a node of autograd.

## Why it costs you

Recomputation trades time for memory. If memory is free, or if recomputing fewer layers would suffice, the time is
wasted.

## When it is not a problem

Recomputation is right if the model does not fit without it, or if the saved memory allows a larger batch. With a
device, the finding is a preview unless a quarter of the device's memory is known to stay free.

## What to do

Recompute less: only attention or activation functions, or only some layers. Keep results that are small but expensive.

## How to check

Peak memory stays below the device's memory, the share of recomputation falls, and the loss is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import NO_RISK, variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TORCH_TRAINS
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.memory_measures import MemoryPeak, Recompute
from hermes.profiles.measure.memory.headroom import Headroom
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._host import blamed, bound, fact, has_device, window_ns
from hermes.profiles.rules.evidence_messages import LEFT_ON_DEVICE, most_reserved
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
ROOM = Limit(
    value=0.25,
    unit="of the device's memory is free in its fullest step",
    source="a choice: longer batches and fragmentation take some",
)


@rule("MEM005", state="stable", fault=Fault.RECOMPUTATION, cases=("MEM-05", "MEM-06", "CMP-43"))
def recomputation(
    job: Job, peaks: Rows[MemoryPeak], recomputed: Rows[Recompute], rooms: Rows[Headroom]
) -> Iterator[Loss]:
    """At most one finding, of forward work that the backward pass runs again."""
    found = loss(job, RECOMPUTED, LIMIT, lambda split: _cost(job, recomputed, split.rank), window_ns)
    row = _recompute(recomputed, found.worst.rank) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=again(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, NOTHING_AGAIN),
        confidence=confidence("MEM005"),
        state="stable" if _has_room(job, rooms, row.rank) else "preview",
        evidence=(*found.evidence, *_facts(job, peaks, row), *_left(job, rooms, row.rank)),
        actions=tuple(replace(one, risk=_risk(rooms, row.rank)) for one in _RECOMPUTE_LESS),
    )


def _fullest(rooms: Rows[Headroom], rank: int) -> Headroom | None:
    return min(rooms.of(rank), key=lambda room: room.free_bytes, default=None)


def _has_room(job: Job, rooms: Rows[Headroom], rank: int) -> bool:
    """Whether memory is not short, as far as known; a host has more memory than its models, or it would swap."""
    room = _fullest(rooms, rank)
    return not has_device(job, rank) if room is None else by_share(ROOM, room.free_bytes / room.capacity_bytes)


def _left(job: Job, rooms: Rows[Headroom], rank: int) -> Iterator[Evidence]:
    room = _fullest(rooms, rank)
    if room is not None:
        yield fact(job, rank, LEFT_ON_DEVICE, room.free_bytes, "bytes", source="its fullest step")


def _risk(rooms: Rows[Headroom], rank: int) -> Message:
    room = _fullest(rooms, rank)
    if room is None:
        return PEAK_RISES
    return must_fit(free=f"{room.free_bytes / 1e9:.1f}", capacity=f"{room.capacity_bytes / 1e9:.0f}")


def _recompute(recomputed: Rows[Recompute], rank: int) -> Recompute | None:
    return next(iter(recomputed.of(rank)), None)


def _cost(job: Job, recomputed: Rows[Recompute], rank: int) -> int | None:
    row = _recompute(recomputed, rank)
    if row is None:
        return None
    return row.device_ns if has_device(job, rank) else row.host_ns


def _facts(job: Job, peaks: Rows[MemoryPeak], row: Recompute) -> Iterator[Evidence]:
    yield fact(job, row.rank, OPERATORS_RUN_AGAIN, row.ops, "a step")
    if row.device_ns is not None and row.compute_ns:
        yield fact(job, row.rank, RECOMPUTED, round(row.device_ns / row.compute_ns, 4), "of compute")
    reserved = [peak for peak in peaks.of(row.rank) if peak.reserved_bytes]
    for peak in sorted(reserved, key=lambda one: -(one.reserved_bytes or 0))[:1]:
        yield fact(job, row.rank, most_reserved(component=peak.component), peak.reserved_bytes or 0, "bytes")


RECOMPUTED = sentence("mem005.recomputed")
NOTHING_AGAIN = sentence("mem005.nothing_again")
_RECOMPUTE_LESS = variants(
    "mem005.recompute_less",
    {
        "_mindspeed": Fit(libraries=("mindspeed",), phase="training"),
        "_megatron": Fit(libraries=("megatron",), phase="training"),
        "": TORCH_TRAINS,
    },
    risk=NO_RISK,
    source="Megatron-LM: recompute_granularity; MindSpeed: activation-function-recompute",
    cases=("MEM-05", "MEM-06", "CMP-43"),
)
OPERATORS_RUN_AGAIN = sentence("mem005.operators_run_again")
PEAK_RISES = sentence("mem005.peak_rises")


@message("mem005.again")
def again(*, share: Share, on: Message | None = None) -> None:
    """The backward pass runs forward work again."""


@message("mem005.must_fit")
def must_fit(*, free: Name, capacity: Name) -> None:
    """The risk of storing activations, if the device's remaining memory is known."""
