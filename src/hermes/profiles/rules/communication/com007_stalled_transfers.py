"""Single transfers stall for many times their usual length.

## What it detects

Transfers that take at least ten times as long as the same transfer usually does, and a millisecond more: what they take
too long, per step. Where single transfers are not recorded, whole operations stand for them.

## Why it costs you

A lost packet is sent again only after a timeout. Every rank of the collective waits through it.

## When it is not a problem

Once in a long capture, such as when a connection is made. In the first step after a start.

## What to do

Look at the error and pause counters of that network port, mend link, optics, flow control or congestion; a shorter
timeout only hides it.

## How to check

Profile the same step again: no transfer stalls, and the counters stand still.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import CHECK_NETWORK_PORT
from hermes.model.comm_measures import GroupOp, Stall
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss, Moment
from hermes.model.job import Job, Rows
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = NOISE
_MOST = 4
_TIMEOUT_NS = 4_000_000_000
"""What the advisor of msprof-analyze takes for a retransmission of RDMA; the default timeout is 4.096 us * 2^20."""


@rule("COM007", state="stable", fault=Fault.STALLED_TRANSFERS, cases=("COM-15", "COM-16", "COM-17", "COM-39"))
def stalled_transfers(job: Job, groups: Rows[GroupOp], transfer_stalls: Rows[Stall]) -> Iterator[Loss]:
    """One finding a rank and transport, of the four that lose most."""
    made = [finding for stall in transfer_stalls if (finding := _of_stall(job, groups, stall))]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _of_stall(job: Job, groups: Rows[GroupOp], stall: Stall) -> Loss | None:
    mean = _exposed(job)
    hit = {rank for group in groups if stall.rank is None or stall.rank in group.ranks for rank in group.ranks}
    steps = job.steps.counts
    most = max(steps.values(), default=1)
    each = stall.excess_ns / max(1, steps.get(stall.rank, most) if stall.rank is not None else most)
    found = loss(
        job,
        "stalled transfers",
        LIMIT,
        lambda split: round(min(each, mean[split.rank])) if split.rank in hit and split.rank in mean else None,
    )
    if found is None:
        return None
    whose = "" if stall.rank is None else f" of rank {stall.rank}"
    again = "; the longest is as long as a retransmission" if stall.longest_ns >= _TIMEOUT_NS else ""
    return Loss(
        message=f"Stalled {stall.what} transfers{whose} cost {found.share:.0%} of the step{again}"
        if stall.rank is not None
        else f"Stalled collectives ({stall.what}) cost {found.share:.0%} of the step{again}",
        ranks=found.ranks,
        blames=(
            Blame(f"rank {stall.rank} {stall.what}", "link", stall.rank)
            if stall.rank is not None
            else Blame(stall.what, "link"),
        ),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: each transfer takes as long as it usually does"),
        confidence=confidence("COM007" if stall.rank is not None else "COM007.no_rank"),
        evidence=(
            *found.evidence,
            Evidence(
                what="longest stalled transfer",
                value=float(stall.longest_ns),
                unit="ns",
                threshold=None,
                where=f"at {stall.longest_at_ns} ns "
                f"({job.inputs.get(stall.rank, '') if stall.rank is not None else ''})",
                at=None
                if stall.rank is None
                else Moment(rank=stall.rank, start_ns=stall.longest_at_ns, dur_ns=stall.longest_ns),
            ),
            Evidence(
                what="transfers that stall",
                value=round(stall.stalled / max(1, stall.counted), 6),
                unit="of all of the kind",
                threshold=None,
                where=stall.what,
            ),
        ),
        replay=("comm:even",),
        actions=(CHECK_NETWORK_PORT,),
    )


def _exposed(job: Job) -> dict[int, float]:
    """Mean exposed communication of each rank over its steps: a stall strikes some of them only."""
    sums: dict[int, list[int]] = {}
    for split in job.steps.every:
        if split.exposed_comm_ns is not None:
            sums.setdefault(split.rank, []).append(split.exposed_comm_ns)
    return {rank: sum(values) / len(values) for rank, values in sums.items()}
