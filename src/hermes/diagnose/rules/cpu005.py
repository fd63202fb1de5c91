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

from hermes.analyze.host_measures import SyncCall
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import blamed, fact, held_cost, host_loss, larger, lines_of, lost_in, on
from hermes.knowledge.blocking import reads_back
from hermes.knowledge.host_work import SYNCHRONISATION

LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_SHOWN = 4


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(
        measures, "free device time in and after the calls", LIMIT, lambda split: _cost(measures, split.rank)
    )
    if found is None:
        return
    calls = _calls(measures, found.worst.rank)
    names = sorted({name for row in calls for name in row.names})
    yield Finding(
        code="CPU005",
        layer="cpu",
        cause="explicit synchronisation",
        title=f"Waiting for the device leaves it free for {found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *(lines_of(calls) or names)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the queue is never empty after the calls"),
        confidence=round(0.65 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            *(
                fact(measures, row.rank, f"free in and after {row.calls} calls: {_place(row)}", lost_in(row), "ns")
                for row in sorted(calls, key=lambda call: (-lost_in(call), _place(call)))[:_SHOWN]
            ),
        ),
        replay=("sync:none",),
        within="CPU001",
        actions=(
            Action(
                title="Do not wait for the device inside the loop",
                do="Remove torch.cuda.synchronize(), torch.npu.synchronize() and empty_cache() from the loop; time "
                "with Event(enable_timing=True) read every 100 steps; tensor.to(device, non_blocking=True) from pinned "
                "memory.",
                verify="The calls are gone from most steps, and free time falls.",
                risk="Errors of the device show later than the call that made them.",
                source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
            ),
        ),
    )


def _calls(measures: Measures, rank: int) -> list[SyncCall]:
    return [row for row in measures.host.syncs if row.rank == rank and not reads_back(row.operator, row.names)]


def _cost(measures: Measures, rank: int) -> int | None:
    """By the windows of all steps, or by the host's part of the typical one, which begins before a device's window."""
    inside = [row.idle_ns for row in _calls(measures, rank)]
    return larger(held_cost(measures, rank, SYNCHRONISATION), sum(inside) if inside else None)


def _place(row: SyncCall) -> str:
    return ", ".join(filter(None, (row.operator or row.names[0], row.source)))


RULE = Rule(
    code="CPU005", page=__doc__ or "", find=find, cases=("CPU-17", "CPU-19", "CPU-20", "CPU-21", "IO-08", "CPU-27")
)
