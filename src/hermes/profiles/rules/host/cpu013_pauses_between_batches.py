"""A service runs no batch for a while although requests are waiting: it prepares the next batch only then.

## What it detects

The rule counts the time in which an inference service has requests but runs no batch, as a share of the time with
requests. The rule takes the process in which the share is largest. The service's own profiler records this time
(msServiceProfiler).

## Why it costs you

If a service schedules synchronously, the device waits while the host reads back the last tokens, chooses the next batch
and prepares its input. Every further token of every request takes that much longer.

## When it is not a problem

Pauses are no fault of the scheduling if requests wait for something outside. Examples are the other node of a service
with separate prefill and decode, or a tool that a request calls. A profile that records each operator slows the host.

## What to do

Let the service prepare a batch while the previous one runs. Then shorten the rest of the scheduling: bind its threads
to cores of their own.

## How to check

Record the same load again: the pauses between batches are shorter, and so is the time for a further token.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import SCHEDULE_AHEAD
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Rows
from hermes.model.service_measures import BatchPauses
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import by_share, rule


@rule("CPU013", state="preview", fault=Fault.STARVED_DEVICE, cases=("CPU-50", "CPU-32"))
def pauses_between_batches(pauses: Rows[BatchPauses]) -> Iterator[Loss]:
    """At most one finding, of the service process that pauses for the largest share of the time."""
    rows = [row for row in pauses if row.window_ns and by_share(LIMIT, row.idle_ns / row.window_ns)]
    if not rows:
        return
    worst = max(rows, key=lambda row: row.idle_ns / row.window_ns)
    share = worst.idle_ns / worst.window_ns
    # Batches recur, so the cost is given for one batch.
    cost = worst.idle_ns // worst.batches
    yield Loss(
        message=no_batch(share=percents(share)),
        ranks=tuple(sorted({row.rank for row in rows})),
        blames=(Blame(worst.process, "operator", worst.rank),) if worst.process else (),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method=at_most(when=READY)),
        confidence=confidence("CPU013"),
        evidence=tuple(_evidence(worst, share)),
        actions=tuple(SCHEDULE_AHEAD[server] for server in SCHEDULE_AHEAD if worst.server in (server, "unknown")),
    )


def _evidence(row: BatchPauses, share: float) -> Iterator[Evidence]:
    where = f"rank {row.rank}"
    yield Evidence(what=NOT_RUNNING, value=share, unit=LIMIT.unit, threshold=LIMIT.value, where=where)
    yield Evidence(what=PAUSE, value=float(row.idle_ns // row.batches), unit="ns", threshold=None,
                   where=where)  # fmt: skip
    if row.scheduling_ns:
        yield Evidence(what=PUT_TOGETHER, value=row.scheduling_ns / row.idle_ns,
                       unit="of pauses", threshold=None, where=where)  # fmt: skip


READY = sentence("cpu013.ready")
NOT_RUNNING = sentence("cpu013.not_running")
PAUSE = sentence("cpu013.pause")
PUT_TOGETHER = sentence("cpu013.put_together")


@message("cpu013.no_batch")
def no_batch(*, share: Share) -> None:
    """A service has requests, and runs no batch."""
