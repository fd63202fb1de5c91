"""A tensor is read back to the host in the middle of the step.

## What it detects

Host time of its own in `aten::_local_scalar_dense` and `aten::item`, per step, as a share of the host's step: a call
such as `.item()`, `float(tensor)` or a Python `if` on a tensor, in which the host stands until the device has finished
all that was queued.

## Why it costs you

While it waits, the host launches nothing. When the value arrives the device's queue is empty, and the device stands
until new work reaches it.

## When it is not a problem

Once per many steps, for a log line. The wait itself is not lost when the device was the limit anyway: then the loss is
only the time to refill the queue.

## What to do

Keep losses and metrics on the device and read them every N steps; replace tensor-dependent Python branches.

## How to check

Profile again: the operator's time is gone and free time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.breakdown import median_split
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold, by_share
from hermes.diagnose.rules._host import host_cost

LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/cpu003.md")
OPERATORS = ("aten::_local_scalar_dense", "aten::item")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    rows = [row for row in measures.operators if row.name in OPERATORS]
    held, share, ranks = host_cost(measures, rows)
    if not rows or not by_share(LIMIT, share):
        return
    free = [
        split.free_ns
        for rank in ranks
        if (split := median_split(tuple(s for s in measures.splits if s.rank == rank))) and split.free_ns
    ]
    # The wait overlaps what the device was doing: only free time can be won back.
    most = min(held, max(free, default=0))
    count = sum(row.count for row in rows)
    yield Finding(
        code="CPU003",
        layer="cpu",
        cause="synchronising call",
        title=f"The host waits for a tensor's value ({share:.0%} of its step)",
        ranks=ranks,
        blames=tuple(row.name for row in rows),
        cost_ns=held,
        share=share,
        gain=Gain(low_ns=0, high_ns=most, method="bound: the device's free time, at most the time the host was held"),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            Evidence(
                what=f"{count} calls, host time of their own",
                value=float(sum(row.total_ns for row in rows)),
                unit="ns",
                threshold=None,
                where=f"ranks {list(ranks)}, all steps",
            ),
            Evidence(
                what="time per step",
                value=round(share, 6),
                unit="of step",
                threshold=LIMIT.value,
                where="mean over ranks",
            ),
        ),
        actions=(
            Action(
                title="Do not read tensors back in every step",
                do="Accumulate losses and metrics as tensors (total += loss.detach()) and call .item() "
                "every 50 or 100 steps.",
                verify="aten::_local_scalar_dense disappears from most steps, and free time falls.",
                risk="Logs lag behind by up to the interval.",
                source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
            ),
        ),
    )


RULE = Rule(code="CPU003", page=__doc__ or "", find=find)
