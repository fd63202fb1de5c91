"""Batches are copied to the device with nothing beside the copy.

## What it detects

The part of a step in which a copy from the host runs and the device neither computes nor communicates, as a share of
the step, over the whole capture. How much came from pageable memory is told where the profiler names it (CUDA, ROCm).

## Why it costs you

A copy from pageable memory goes through a buffer of the driver and blocks the host; one from pinned memory that the
loop waits for stands before the step instead of beside the last one.

## When it is not a problem

When what is copied is no input: offloaded states and weights are read back by design, and MEM001 counts all copies.

## What to do

Pin the batches and copy them without blocking, one batch ahead, on a stream of their own; one large copy instead of
many small ones; the type that the data has instead of a wider one.

## How to check

Profile again: copies from the host run beside kernels, and their memory is called pinned.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.host_measures import InputCopies
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import blamed, fact, host_loss, on

LIMIT = Threshold(
    value=0.05,
    unit="of step",
    source="system rule of TraceLens 0.1: copies between host and device above 5 % of the time",
)
PAGEABLE = Threshold(value=0.5, unit="of bytes", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(measures, "copies from the host beside nothing", LIMIT, lambda split: _cost(measures, split.rank))
    row = _copies(measures, found.worst.rank) if found else None
    if found is None or row is None:
        return
    pageable = (row.pageable_bytes or 0) > PAGEABLE.value * (row.bytes or 0)
    steps = max(1, measures.steps_of_rank.get(row.rank, 1))
    yield Finding(
        code="IO005",
        layer="io",
        cause="copies from pageable memory" if pageable else "copies of batches that nothing hides",
        title=f"Copies from the host{' out of pageable memory' if pageable else ''} take {found.share:.0%} of the step "
        f"with nothing beside them{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: every copy from the host runs beside compute"),
        confidence=round(0.8 * measures.certainty, 2),
        evidence=(*found.evidence, *_facts(measures, row, steps)),
        replay=("copy:*=0",),
        within="MEM001",
        actions=(
            Action(
                title="Copy ahead, from pinned memory",
                do="DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True), one batch ahead on a "
                "stream of its own; gather small tensors into one before the copy.",
                verify="Copies from the host overlap kernels in the next profile.",
                risk="Pinned memory cannot be swapped out; the host tensor must stay unchanged until its copy ended.",
                source="PyTorch notes on CUDA semantics: use pinned memory buffers",
            ),
        ),
    )


def _copies(measures: Measures, rank: int) -> InputCopies | None:
    return next((row for row in measures.host.copies if row.rank == rank), None)


def _cost(measures: Measures, rank: int) -> int | None:
    row = _copies(measures, rank)
    return None if row is None else row.exposed_ns // max(1, measures.steps_of_rank.get(rank, 1))


def _facts(measures: Measures, row: InputCopies, steps: int) -> Iterator[Evidence]:
    yield fact(measures, row.rank, "copies from the host", row.copies / steps, "a step")
    if row.bytes is not None:
        yield fact(measures, row.rank, "mean copy", row.bytes / row.copies, "bytes")
        if row.time_ns:
            yield fact(measures, row.rank, "speed of these copies", round(row.bytes / row.time_ns, 3), "GB/s")
    if row.pageable_bytes is not None and row.bytes:
        share = row.pageable_bytes / row.bytes
        yield fact(measures, row.rank, "copied from pageable memory", share, "of bytes", PAGEABLE.value)


RULE = Rule(code="IO005", page=__doc__ or "", find=find, cases=("IO-08", "IO-09", "IO-10", "IO-12", "IO-22", "CPU-20"))
