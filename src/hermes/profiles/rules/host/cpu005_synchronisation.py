"""The program waits for the device in the middle of the step.

## What it detects

Free time of the device in calls that wait for it (`synchronize`, blocking copies) and until the next task arrives, per
step, as a share of the step. Reading a number back is CPU003. With stacks or Python frames the lines are named.

## Why it costs you

When the call returns, the queue is empty: all that the host does next is time in which the device has nothing to do.

## When it is not a problem

At the end of a step that a profiler or a timer closes: then it is gone with the profiler. A long wait alone is no loss:
while the host waits, the device works.

## What to do

Drop `synchronize()` and `empty_cache()` from the loop, time with events, copy from pinned memory without blocking, and
create tensors on the device instead of copying them to it.

## How to check

Profile again: the calls are gone from most steps, and free time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.blocking import is_copy, reads_back
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import NO_SYNCHRONISATION, PINNED_AND_FEW
from hermes.knowledge.host_work import SYNCHRONISATION
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.host_measures import SyncCall
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import HostStall
from hermes.profiles.rules._host import blamed, fact, host_loss, larger, lines_of, lost_in, on, stall_cost
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_SHOWN = 4


@rule(
    "CPU005",
    state="stable",
    fault=Fault.EXPLICIT_SYNCHRONISATION,
    cases=("CPU-17", "CPU-19", "CPU-20", "CPU-21", "IO-08", "CPU-27"),
)
def synchronisation(job: Job, stalls: Rows[HostStall], syncs: Rows[SyncCall]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job, "free device time in and after the calls", LIMIT, lambda split: _cost(job, stalls, syncs, split.rank)
    )
    if found is None:
        return
    calls = _calls(syncs, found.worst.rank)
    names = sorted({name for row in calls for name in row.names})
    copies = bool(calls) and any(is_copy(name) for name in max(calls, key=lost_in).names)
    what = "Copying pageable memory leaves the device" if copies else "Waiting for the device leaves it"
    yield Loss(
        fault=Fault.COPIES_FROM_PAGEABLE_MEMORY if copies else None,
        message=f"{what} free for {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, *(lines_of(calls) or map(Blame, names))),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the queue is never empty after the calls"),
        confidence=confidence("CPU005"),
        evidence=(
            *found.evidence,
            *(
                fact(job, row.rank, f"free in and after {row.calls} calls: {_place(row)}", lost_in(row), "ns")
                for row in sorted(calls, key=lambda call: (-lost_in(call), _place(call)))[:_SHOWN]
            ),
        ),
        # What waits inside of a copy waits for memory that is staged, which no replay takes away.
        replay=() if copies else ("sync:none",),
        actions=(PINNED_AND_FEW, NO_SYNCHRONISATION) if copies else (NO_SYNCHRONISATION,),
    )


def _calls(syncs: Rows[SyncCall], rank: int) -> list[SyncCall]:
    return [row for row in syncs.of(rank) if not reads_back(row.operator, row.names)]


def _cost(job: Job, stalls: Rows[HostStall], syncs: Rows[SyncCall], rank: int) -> int | None:
    """By the windows of all steps, or by the host's part of the typical one, which begins before a device's window."""
    inside = [row.idle_ns for row in _calls(syncs, rank)]
    return larger(stall_cost(job, stalls, rank, SYNCHRONISATION), sum(inside) if inside else None)


def _place(row: SyncCall) -> str:
    return ", ".join(filter(None, (row.operator or row.names[0], row.source)))
