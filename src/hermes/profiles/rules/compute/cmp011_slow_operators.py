"""One rank takes longer than the others for the same operators.

## What it detects

What the operators of one rank take beyond the median rank for calls with the same shapes and types, per step, against
the window and against the time of its kernels. An operator counts that several ranks have; of two ranks each is held
against the other. Jobs that compute on processors are left out: cores are shared with other work, and the next step may
be another rank's to wait in.

## Why it costs you

Every collective ends when its last member arrives: a rank that computes slower makes all others wait by as much.

## When it is not a problem

When nothing waits for that rank, because another is slower still.

## What to do

Look for what is different there: a low clock (CMP008), heat, another process on the device, another software version.
Move the rank to another device to see whether the slowness stays with the device.

## How to check

Profile all ranks on the same step again: equal operators take equally long, and the others no longer wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import COMPARE_DEVICES
from hermes.model.compute_measures import StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.measures import PeerWait
from hermes.profiles.rules._component import place
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow import SLOWER, Slow, slow_by_compute
from hermes.profiles.rules.rule import rule

LIMIT = SLOWER
FLOOR = NOISE
_MOST = 8


@rule("CMP011", state="stable", fault=Fault.SLOW_DEVICE, cases=("COM-21", "CMP-14", "ENV-13", "ENV-06", "ENV-07"))
def slow_operators(job: Job, waits: Rows[PeerWait], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """One finding a rank, of the eight slowest."""
    waited = {wait.peer for wait in waits}
    # Operators that take no time at all on the median rank tell nothing about this one.
    slow = (one for one in slow_by_compute(job, computes) if one.lost_ns < one.kernel_ns)
    found = [one for one in slow if has_device(job, one.rank)]
    for one in found[:_MOST]:
        yield _of_rank(job, one, apart=one.rank not in waited)


def _of_rank(job: Job, slow: Slow, *, apart: bool) -> Loss:
    share = slow.lost_ns / slow.split.window_ns
    of_own = slow.lost_ns / slow.kernel_ns
    where = place(job, slow.split)
    return Loss(
        message=f"Rank {slow.rank} takes {of_own / (1 - of_own):.0%} longer than the others for the same operators, "
        f"{share:.0%} of the step",
        ranks=(slow.rank,),
        blames=(Blame.of_rank(slow.rank),),
        cost_ns=slow.lost_ns,
        share=share,
        gain=Gain(low_ns=0, high_ns=slow.lost_ns, method="bound: its operators take as long as on the median rank"),
        confidence=confidence("CMP011"),
        evidence=(
            Evidence(
                what="beyond the median rank",
                value=round(share, 6),
                unit="of window",
                threshold=FLOOR.value,
                where=where,
            ),
            Evidence(
                what="beyond the median rank",
                value=round(of_own, 6),
                unit="of the time of its kernels",
                threshold=LIMIT.value,
                where=where,
            ),
        ),
        replay=(f"compute:{slow.rank}={1 - of_own:.4g}",),
        apart=apart,
        actions=(
            Action(
                title=f"Find out what is different about the device of rank {slow.rank}",
                do=COMPARE_DEVICES,
                verify="The slowness stays with the device (mend or replace it) or moves with the rank (look at its "
                "data and settings).",
                risk="none",
                source="slow-card advice of MindStudio Insight 26.0",
            ),
        ),
    )
