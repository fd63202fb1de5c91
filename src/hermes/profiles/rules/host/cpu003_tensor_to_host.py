"""A tensor is read back to the host in the middle of the step.

## What it detects

Free time of the device while the host reads a tensor's value (`.item()`, `float(tensor)`, a Python `if` on a tensor:
all end in `aten::_local_scalar_dense`) and until the next task arrives, per step, as a share of the window. Where the
host first fetches a batch, saves or collects garbage, the loss ends there: that is another cause. With stacks or Python
frames the lines that read are named.

## Why it costs you

The host stands in the call until the device has finished all that was queued. When the value arrives the queue is
empty, and the device is free until new work reaches it.

## When it is not a problem

Once in many steps, for a log line. A long wait alone is no loss: while the host waits, the device works.

## What to do

Keep losses and metrics on the device and read them every N steps; replace tensor-dependent Python branches.

## How to check

Profile again: the operator is gone from most steps, and free time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.blocking import READ_BACK, reads_back
from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import SyncCall
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import HostStall
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._host import blamed, fact, lines_of, lost_in, of_stalls, on, stall_cost
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.02, unit="of window", source="docs/evidence/cpu003.md")
_SHOWN = 3


@rule("CPU003", state="stable", fault=Fault.SYNCHRONISING_CALL, cases=("CPU-18", "CPU-19"))
def tensor_to_host(job: Job, stalls: Rows[HostStall], syncs: Rows[SyncCall]) -> Iterator[Loss]:
    """At most one finding."""
    found = loss(
        job,
        "free device time in and after the calls",
        LIMIT,
        lambda split: stall_cost(job, stalls, split.rank, READ_BACK),
    )
    if found is None:
        return
    rank = found.worst.rank
    calls = [row for row in syncs.of(rank) if reads_back(row.operator, row.names)]
    lines = lines_of(calls)
    names = [name for row in stalls.of(rank) if row.cause == READ_BACK for name in row.names]
    yield Loss(
        message=f"Reading tensors back leaves the device free for {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, *(lines or map(Blame, names))),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the queue is never empty after the calls"),
        confidence=confidence("CPU003"),
        evidence=(*found.evidence, *of_stalls(job, stalls, rank, READ_BACK), *_places(job, calls)),
        replay=("sync:none",),
        actions=(
            Action(
                title="Do not read tensors back in every step",
                do="Keep numbers as tensors on the device, and call .item() or .tolist() every 50 or 100 steps, or "
                "once at the end for all of them; accumulate losses by total += loss.detach().",
                verify="aten::_local_scalar_dense disappears from most steps, and free time falls.",
                risk="Logs lag behind by up to the interval.",
                source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
            ),
        ),
    )


def _places(job: Job, calls: list[SyncCall]) -> Iterator[Evidence]:
    """The lines that read, by what they leave free, and how long the host stands in them though the device works."""
    for row in sorted(calls, key=lambda call: (-lost_in(call), call.source or ""))[:_SHOWN]:
        where = row.source or "a line that was not recorded"
        yield fact(job, row.rank, f"free in and after {row.calls} waits of {where}", lost_in(row), "ns")
        yield fact(job, row.rank, "host time in these, device at work or not", row.wait_ns, "ns")
