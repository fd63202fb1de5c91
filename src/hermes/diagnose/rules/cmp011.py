"""One rank takes longer than the others for the same operators.

## What it detects

What the operators of one rank take beyond the median rank for calls with the same shapes and types, per step, against
the window and against the time of its kernels. At least three ranks must have an operator for it to count.

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

from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule
from hermes.diagnose.rules._component import place
from hermes.diagnose.rules._limits import NOISE
from hermes.diagnose.rules._slow import SLOWER, Slow, slow_by_compute

LIMIT = SLOWER
FLOOR = NOISE
_MOST = 8


def find(measures: Measures) -> Iterator[Finding]:
    """One finding a rank, of the eight slowest."""
    waited = {wait.peer for wait in measures.waits}
    for slow in slow_by_compute(measures)[:_MOST]:
        yield _of_rank(measures, slow, "COM002" if slow.rank in waited else "")


def _of_rank(measures: Measures, slow: Slow, within: str) -> Finding:
    share = slow.lost_ns / slow.split.window_ns
    of_own = slow.lost_ns / slow.kernel_ns
    where = place(measures, slow.split)
    return Finding(
        code="CMP011",
        layer="compute",
        cause="slow device",
        title=f"Rank {slow.rank} takes {of_own / (1 - of_own):.0%} longer than the others for the same operators, "
        f"{share:.0%} of the step",
        ranks=(slow.rank,),
        blames=(f"rank {slow.rank}",),
        cost_ns=slow.lost_ns,
        share=share,
        gain=Gain(low_ns=0, high_ns=slow.lost_ns, method="bound: its operators take as long as on the median rank"),
        confidence=round(0.9 * measures.certainty, 2),
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
        within=within,
        actions=(
            Action(
                title=f"Find out what is different about the device of rank {slow.rank}",
                do="Compare clock, temperature, power and processes of its device with another's (npu-smi info, "
                "nvidia-smi -q); "
                "swap the two ranks' devices and profile again.",
                verify="The slowness stays with the device (mend or replace it) or moves with the rank (look at "
                "its data "
                "and settings).",
                risk="none",
                source="slow-card advice of MindStudio Insight 26.0",
            ),
        ),
    )


RULE = Rule(code="CMP011", page=__doc__ or "", find=find, cases=("COM-21", "CMP-14", "ENV-13", "ENV-06"))
