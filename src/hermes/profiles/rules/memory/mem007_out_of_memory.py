"""A request for memory failed: the device was full, or what was free lay in pieces.

## What it detects

Requests that failed, in a snapshot of the allocator: what was asked for, by which line, what the device had left, what
was handed out and to whom, and how much the allocator had taken from the device without using it.

## Why it costs you

The job ends there, or starts again with a smaller batch.

## When it is not a problem

When the program tries a size on purpose and falls back to a smaller one.

## What to do

Where enough lay idle in the allocator, let it join its pieces. Else hold less: a smaller micro-batch, recomputation of
activations, sharded parameters and optimizer states; begin with the line that holds most.

## How to check

Record the same steps again: no request fails, and the peak stays below what the device has.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import EXPANDABLE_SEGMENTS, HOLD_LESS
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss, Moment
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.memory.oom import FailedRequest
from hermes.profiles.rules.rule import rule

ENOUGH = Limit(
    value=0.99,
    unit="of the request, idle in the allocator, would have met it in one piece",
    source="PyTorch, message of OutOfMemoryError: reserved but unallocated memory is large",
)
_GB = 1e9


@rule("MEM007", state="preview", fault=Fault.OUT_OF_MEMORY, cases=("MEM-01", "MEM-02", "MEM-05"))
def out_of_memory(job: Job, failed: Rows[FailedRequest]) -> Iterator[Loss]:
    """At most one finding, of the first request that failed on any rank."""
    rows = sorted(failed, key=lambda row: (row.at_ns, row.rank))
    if not rows:
        return
    first = rows[0]
    pieces = first.idle_bytes is not None and first.idle_bytes >= ENOUGH.value * first.asked_bytes
    held = f"{(first.allocated_bytes or 0) / _GB:.2f} GB were handed out"
    why = (
        f"{(first.idle_bytes or 0) / _GB:.2f} GB lay idle in pieces"
        if pieces
        else f"{held} and the device had {first.left_bytes / _GB:.2f} GB left"
    )
    line = first.place.partition(" < ")[0]
    yield Loss(
        message=f"Out of memory: {first.asked_bytes / _GB:.2f} GB were asked for by {line}, while {why}",
        ranks=tuple(sorted({row.rank for row in rows})),
        blames=(Blame(line, "operator", first.rank),),
        cost_ns=0,
        share=0.0,
        gain=Gain(low_ns=0, high_ns=0, method="no time: it keeps the job from ending"),
        confidence=confidence("MEM007"),
        endangers=True,
        evidence=tuple(_evidence(first)),
        actions=(EXPANDABLE_SEGMENTS, HOLD_LESS) if pieces else (HOLD_LESS,),
    )  # fmt: skip


def _evidence(row: FailedRequest) -> Iterator[Evidence]:
    at = Moment(rank=row.rank, start_ns=row.at_ns, dur_ns=0)
    where = f"rank {row.rank}" if row.device_id is None else f"rank {row.rank}, device {row.device_id}"
    for what, value in (
        ("asked for", row.asked_bytes), ("left on the device", row.left_bytes), ("handed out", row.allocated_bytes),
        ("idle in the allocator", row.idle_bytes),
    ):  # fmt: skip
        if value is not None:
            yield Evidence(what=what, value=float(value), unit="bytes", threshold=None, where=where, at=at)
    if row.holders:
        yield Evidence(what="held most", value=float(row.allocated_bytes or 0), unit="bytes", threshold=None,
                       where=row.holders, at=at)  # fmt: skip
