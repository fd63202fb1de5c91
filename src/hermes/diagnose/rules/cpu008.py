"""The cores of the host are full.

## What it detects

The mean load of the host's cores, where it was sampled (on Ascend `host_sys` of the profiler), together with a loss
that a busy processor explains: free time of the device while the host hands over work or fetches batches. A full
processor alone is no finding.

## Why it costs you

The thread that feeds the device waits for its turn like any other. More threads than cores make each of them slower.

## When it is not a problem

When the cores are full of workers that keep up, and the device is never free.

## What to do

Give ranks and workers no more threads than cores, bind each rank to cores of its own near its device, and move other
work to other hosts.

## How to check

The load falls below the limit, and free time with it; `hermes run` shows how long the training thread waited for a
core.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._dispatch import dispatch_cost
from hermes.diagnose.rules._host import blamed, fact, host_loss, on
from hermes.diagnose.rules._input import fetch_cost
from hermes.diagnose.rules._limits import FREE_OF_STEP as LIMIT

FULL = Threshold(value=0.9, unit="of cores", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    load = {row.rank: row for row in measures.host.contention if row.usage > FULL.value}
    found = host_loss(
        measures,
        "free while the host hands over work or fetches batches",
        LIMIT,
        lambda split: _cost(measures, split) if split.rank in load else None,
    )
    if found is None:
        return
    row = load[found.worst.rank]
    yield Finding(
        code="CPU008",
        layer="cpu",
        cause="cores full",
        title=f"The host's cores are full while the device waits for {found.share:.0%} of the step"
        f"{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: all that the host does late is for want of a core"),
        confidence=round(0.5 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            fact(measures, row.rank, f"mean load of {row.cores} cores", round(row.usage, 4), "of cores", FULL.value),
            fact(measures, row.rank, "load of the busiest core", round(row.busiest, 4), "of a core"),
        ),
        within="CPU001",
        actions=(
            Action(
                title="No more threads than cores, each rank on cores of its own",
                do="export OMP_NUM_THREADS=<cores / ranks>; fewer DataLoader workers with one thread in each; "
                "on Ascend export CPU_AFFINITY_CONF=1, elsewhere torchrun --numa-binding=node.",
                verify="The load falls, and free time per step with it.",
                risk="Too few threads slow preparation on the host.",
                source="PyTorch performance tuning guide: utilize OpenMP; torch_npu's list of environment variables",
            ),
        ),
    )


def _cost(measures: Measures, split: StepSplit) -> int | None:
    fetching = fetch_cost(measures, split, ("main process", "workers", "not told"))
    known = [cost for cost in (dispatch_cost(measures, split.rank), fetching) if cost is not None]
    return sum(known) if known else None


RULE = Rule(
    code="CPU008",
    page=__doc__ or "",
    find=find,
    cases=("CPU-34", "CPU-35", "CPU-36", "CPU-32", "CPU-44", "IO-05", "CPU-45"),
)
