"""Activations are computed again in the backward pass.

## What it detects

Time of device kernels that the backward pass launches to compute forward operators a second time (activation
checkpointing), in the typical step, as a share of its window; on a job without a device the time of these operators on
the host. They are known by their place: forward operators with a number of their own inside a node of autograd.

## Why it costs you

Recomputation trades time for memory. Where memory is free, or only a part of the layers would need it, the time is
paid for nothing.

## When it is not a problem

When the model does not fit without it, or the memory that it frees pays for a larger batch: of a device the finding is
a preview, unless a quarter of its memory is known to stay free.

## What to do

Recompute less: only attention or activation functions, or only some layers; keep what is dear to compute and small.

## How to check

Peak memory stays below the device's, the share falls, and the loss is the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.memory_measures import MemoryPeak, Recompute
from hermes.profiles.measure.memory.headroom import Headroom
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._host import blamed, bound, fact, has_device, on, step_ns
from hermes.profiles.rules.rule import by_share, rule

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
    """At most one finding."""
    found = loss(job, "recomputed", LIMIT, lambda split: _cost(job, recomputed, split.rank), step_ns)
    row = _recompute(recomputed, found.worst.rank) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=f"Activations that are computed again take {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "nothing is computed again, and memory suffices"),
        confidence=confidence("MEM005"),
        state="stable" if _has_room(job, rooms, row.rank) else "preview",
        evidence=(*found.evidence, *_facts(job, peaks, row), *_left(job, rooms, row.rank)),
        actions=(
            Action(
                title="Recompute less",
                do="Megatron: --recompute-granularity selective, or --recompute-method block --recompute-num-layers "
                "with fewer layers; MindSpeed: --recompute-activation-function; torch.utils.checkpoint around fewer "
                "modules.",
                verify="The share falls, and peak memory stays below that of the device.",
                risk=_risk(rooms, row.rank),
                source="Megatron-LM: recompute_granularity; MindSpeed: activation-function-recompute",
            ),
        ),
    )


def _fullest(rooms: Rows[Headroom], rank: int) -> Headroom | None:
    return min(rooms.of(rank), key=lambda room: room.free_bytes, default=None)


def _has_room(job: Job, rooms: Rows[Headroom], rank: int) -> bool:
    """Whether memory is not short, as far as it is known; a host has more than its models, else it would swap."""
    room = _fullest(rooms, rank)
    return not has_device(job, rank) if room is None else by_share(ROOM, room.free_bytes / room.capacity_bytes)


def _left(job: Job, rooms: Rows[Headroom], rank: int) -> Iterator[Evidence]:
    room = _fullest(rooms, rank)
    if room is not None:
        yield fact(job, rank, "left on the device", room.free_bytes, "bytes", source="its fullest step")


def _risk(rooms: Rows[Headroom], rank: int) -> str:
    room = _fullest(rooms, rank)
    if room is None:
        return "Peak memory rises: try one step at the longest batch."
    return (
        f"Peak memory rises, and the device has {room.free_bytes / 1e9:.1f} of {room.capacity_bytes / 1e9:.0f} GB left "
        "in its fullest step: what is kept instead must fit there. Try one step at the longest batch."
    )


def _recompute(recomputed: Rows[Recompute], rank: int) -> Recompute | None:
    return next(iter(recomputed.of(rank)), None)


def _cost(job: Job, recomputed: Rows[Recompute], rank: int) -> int | None:
    row = _recompute(recomputed, rank)
    if row is None:
        return None
    return row.device_ns if has_device(job, rank) else row.host_ns


def _facts(job: Job, peaks: Rows[MemoryPeak], row: Recompute) -> Iterator[Evidence]:
    yield fact(job, row.rank, "operators run again", row.ops, "a step")
    if row.device_ns is not None and row.compute_ns:
        yield fact(job, row.rank, "recomputed", round(row.device_ns / row.compute_ns, 4), "of compute")
    reserved = [peak for peak in peaks.of(row.rank) if peak.reserved_bytes]
    for peak in sorted(reserved, key=lambda one: -(one.reserved_bytes or 0))[:1]:
        yield fact(job, row.rank, f"{peak.component}: most reserved", peak.reserved_bytes or 0, "bytes")
