"""A service runs no batch for a while though requests are under way: it puts the next one together only then.

## What it detects

The time in which requests of an inference service are under way and none of its batches runs, as a share of the time
with requests under way, in the process where it is largest. It is told by the service's own profiler
(msServiceProfiler).

## Why it costs you

Where a service schedules synchronously, the device waits while the host reads back the last tokens, chooses the next
batch and prepares its input. Every further token of every request takes that much longer.

## When it is not a problem

When the requests wait for something outside: the other node of a service that has prefill and decode apart, or a tool
that a request calls. When the profile itself records each operator.

## What to do

Let the service prepare a batch while the one before it runs, then make what is left of the scheduling shorter: bind its
threads to cores of their own.

## How to check

Record the same load again: the pauses between batches fall, and the time for a further token with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import SCHEDULE_AHEAD
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Rows
from hermes.model.service_measures import BatchPauses
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import by_share, rule


@rule("CPU013", state="preview", fault=Fault.STARVED_DEVICE, cases=("CPU-50", "CPU-32"))
def pauses_between_batches(pauses: Rows[BatchPauses]) -> Iterator[Loss]:
    """At most one finding, of the process that pauses for the largest share."""
    rows = [row for row in pauses if row.window_ns and by_share(LIMIT, row.idle_ns / row.window_ns)]
    if not rows:
        return
    worst = max(rows, key=lambda row: row.idle_ns / row.window_ns)
    share = worst.idle_ns / worst.window_ns
    # What recurs is a batch: a cost is said of one.
    cost = worst.idle_ns // worst.batches
    yield Loss(
        message=f"No batch of the service runs for {share:.0%} of the time in which requests are under way",
        ranks=tuple(sorted({row.rank for row in rows})),
        blames=(Blame(worst.process, "operator", worst.rank),) if worst.process else (),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method="bound: each batch is ready when the one before it ends"),
        confidence=confidence("CPU013"),
        evidence=tuple(_evidence(worst, share)),
        actions=tuple(SCHEDULE_AHEAD[server] for server in SCHEDULE_AHEAD if worst.server in (server, "unknown")),
    )


def _evidence(row: BatchPauses, share: float) -> Iterator[Evidence]:
    where = f"rank {row.rank}"
    yield Evidence(what="no batch running", value=share, unit=LIMIT.unit, threshold=LIMIT.value, where=where)
    yield Evidence(what="a pause, per batch", value=float(row.idle_ns // row.batches), unit="ns", threshold=None,
                   where=where)  # fmt: skip
    if row.scheduling_ns:
        yield Evidence(what="of the pauses, a batch was put together", value=row.scheduling_ns / row.idle_ns,
                       unit="of pauses", threshold=None, where=where)  # fmt: skip
