"""Finds copies of batches to the device during which nothing else runs."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import COPY_AHEAD
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.input_measures import InputCopies
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import blamed, fact, host_loss
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(
    value=0.05,
    unit="of step",
    source="system rule of TraceLens 0.1: copies between host and device above 5 % of the time",
)
PAGEABLE = Limit(value=0.5, unit="of bytes", source="docs/evidence/host-limits.md")


@rule(
    "MEM001",
    state="preview",
    layer="io",
    fault=Fault.EXPOSED_INPUT_COPIES,
    cases=("IO-08", "IO-09", "IO-10", "IO-12", "IO-22", "CPU-20"),
)
def exposed_input_copies(job: Job, copies: Rows[InputCopies]) -> Iterator[Loss]:
    """At most one finding, of exposed copies of batches."""
    found = host_loss(job, COST_OF_BATCHES, LIMIT, lambda split: _cost(job, copies, split.rank))
    row = _copies(copies, found.worst.rank) if found else None
    if found is None or row is None:
        return
    pageable = (row.pageable_bytes or 0) > PAGEABLE.value * (row.bytes or 0)
    steps = max(1, job.steps.counts.get(row.rank, 1))
    yield Loss(
        fault=Fault.COPIES_FROM_PAGEABLE_MEMORY if pageable else None,
        message=(pageable_take if pageable else batches_take)(
            share=percents(found.share), on=some_of(job, found.ranks)
        ),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=BATCHES_BESIDE_COMPUTE)),
        confidence=confidence("MEM001.of_batches"),
        evidence=(*found.evidence, *_facts(job, row, steps)),
        replay=("copy:*=0",),
        actions=(COPY_AHEAD,),
    )


def _copies(copies: Rows[InputCopies], rank: int) -> InputCopies | None:
    return next(iter(copies.of(rank)), None)


def _cost(job: Job, copies: Rows[InputCopies], rank: int) -> int | None:
    row = _copies(copies, rank)
    return None if row is None else row.exposed_ns // max(1, job.steps.counts.get(rank, 1))


def _facts(job: Job, row: InputCopies, steps: int) -> Iterator[Evidence]:
    yield fact(job, row.rank, COPIES_FROM_HOST, row.copies / steps, "a step")
    if row.bytes is not None:
        yield fact(job, row.rank, MEAN_COPY, row.bytes / row.copies, "bytes")
        if row.time_ns:
            yield fact(job, row.rank, SPEED_OF_COPIES, round(row.bytes / row.time_ns, 3), "GB/s")
    if row.pageable_bytes is not None and row.bytes:
        share = row.pageable_bytes / row.bytes
        yield fact(job, row.rank, FROM_PAGEABLE, share, "of bytes", PAGEABLE.value)


COST_OF_BATCHES = sentence("mem001.cost_of_batches")
BATCHES_BESIDE_COMPUTE = sentence("mem001.batches_beside_compute")
COPIES_FROM_HOST = sentence("mem001.copies_from_host")
MEAN_COPY = sentence("mem001.mean_copy")
SPEED_OF_COPIES = sentence("mem001.speed_of_copies")
FROM_PAGEABLE = sentence("mem001.from_pageable")


@message("mem001.batches_take")
def batches_take(*, share: Share, on: Message | None = None) -> None:
    """Copies of batches take time."""


@message("mem001.pageable_take")
def pageable_take(*, share: Share, on: Message | None = None) -> None:
    """Copies of batches take time, and their memory is not pinned."""
