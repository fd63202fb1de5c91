"""A request for memory failed: the device was full, or its free memory was fragmented.

## What it detects

The rule finds failed requests in a snapshot of the allocator. The finding says how much memory a line asked for, and
how much the device had left. The finding also says which lines hold memory, and how much the allocator had reserved
without using it.

## Why it costs you

The job ends at the failed request, or starts again with a smaller batch.

## When it is not a problem

A failed request is no problem if the program tries a size on purpose and falls back to a smaller size.

## What to do

If the allocator had reserved enough unused memory, allow expandable segments. Otherwise use less memory, and begin with
the line that holds most: a smaller micro-batch, recomputation of activations, sharded parameters and optimizer states.

## How to check

Record the same steps again: no request fails, and the peak stays below the device's memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import EXPANDABLE_SEGMENTS, HOLD_LESS
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, FindingMoment, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.memory.failed_requests import FailedRequest
from hermes.profiles.rules.evidence_messages import LEFT_ON_DEVICE
from hermes.profiles.rules.rule import rule

ENOUGH = Limit(
    value=0.99,
    unit="of the request was reserved but unused: one block of this size would have sufficed",
    source="PyTorch, message of OutOfMemoryError: reserved but unallocated memory is large",
)
_GB = 1e9


@rule("MEM007", state="preview", fault=Fault.OUT_OF_MEMORY, cases=("MEM-01", "MEM-02", "MEM-05"))
def out_of_memory(job: Job, failed: Rows[FailedRequest]) -> Iterator[Loss]:
    """At most one finding, of the first memory request that failed on any rank."""
    rows = sorted(failed, key=lambda row: (row.at_ns, row.rank))
    if not rows:
        return
    first = rows[0]
    pieces = first.idle_bytes is not None and first.idle_bytes >= ENOUGH.value * first.asked_bytes
    why = (
        idle_in_pieces(idle=_gigabytes(first.idle_bytes or 0))
        if pieces
        else handed_out(held=_gigabytes(first.allocated_bytes or 0), left=_gigabytes(first.left_bytes))
    )
    line = first.place.partition(" < ")[0]
    yield Loss(
        message=asked(gigabytes=_gigabytes(first.asked_bytes), line=line, why=why),
        ranks=tuple(sorted({row.rank for row in rows})),
        blames=(Blame(line, "operator", first.rank),),
        cost_ns=0,
        share=0.0,
        gain=Gain(low_ns=0, high_ns=0, method=NO_TIME),
        confidence=confidence("MEM007"),
        endangers=True,
        evidence=tuple(_evidence(first)),
        actions=(*EXPANDABLE_SEGMENTS, *HOLD_LESS) if pieces else HOLD_LESS,
    )  # fmt: skip


def _gigabytes(count: int) -> str:
    return f"{count / _GB:.2f}"


def _evidence(row: FailedRequest) -> Iterator[Evidence]:
    at = FindingMoment(rank=row.rank, start_ns=row.at_ns, dur_ns=0)
    where = f"rank {row.rank}" if row.device_id is None else f"rank {row.rank}, device {row.device_id}"
    for what, value in (
        (ASKED_FOR, row.asked_bytes), (LEFT_ON_DEVICE, row.left_bytes), (HANDED_OUT, row.allocated_bytes),
        (IDLE, row.idle_bytes),
    ):  # fmt: skip
        if value is not None:
            yield Evidence(what=what, value=float(value), unit="bytes", threshold=None, where=where, at=at)
    if row.holders:
        yield Evidence(what=HELD_MOST, value=float(row.allocated_bytes or 0), unit="bytes", threshold=None,
                       where=row.holders, at=at)  # fmt: skip


NO_TIME = sentence("mem007.no_time")
HELD_MOST = sentence("mem007.held_most")
ASKED_FOR = sentence("mem007.asked_for")
HANDED_OUT = sentence("mem007.handed")
IDLE = sentence("mem007.idle")


@message("mem007.asked")
def asked(*, gigabytes: Name, line: Name, why: Message) -> None:
    """A request for memory failed."""


@message("mem007.idle_in_pieces")
def idle_in_pieces(*, idle: Name) -> None:
    """Enough memory was idle, but fragmented."""


@message("mem007.handed_out")
def handed_out(*, held: Name, left: Name) -> None:
    """The memory that was taken, and the memory that was left."""
