"""A job on the processor computes on fewer threads than it has cores.

## What it detects

Operators that last a tenth of a millisecond or more, as a share of the step, of a job without an accelerator whose
number of threads (torch.get_num_threads()) is at most half of the cores of each rank.

## Why it costs you

A product of large matrices takes about half the time on two cores. `torchrun` sets OMP_NUM_THREADS=1 where nobody else
does, and a job keeps that number on a machine with sixty-four cores.

## When it is not a problem

When the other cores are taken: by workers of the loader, by other jobs. The capture does not tell who has them.

## What to do

Give each rank its share of the cores, less those of the loader's workers.

## How to check

Run again with twice the threads: large operators take about half the time, and the step shortens.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import named
from hermes.profiles.rules._host import fact, on
from hermes.profiles.rules._threads import cores_per_thread, threaded
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.30, unit="of window", source="docs/evidence/cpu009.md")
FEW = Limit(value=0.5, unit="threads for each core", source="PyTorch, CPU threading: a thread for each core")
LARGE_NS = Limit(value=100_000, unit="ns an operator, to be worth several threads", source="docs/evidence/cpu009.md")
SPEEDUP = Limit(value=0.8, unit="of what twice the threads could give", source="docs/evidence/cpu009.md")


@rule("CPU011", state="preview", fault=Fault.FEWER_THREADS_THAN_CORES, layer="environment", cases=("CMP-28",))
def too_few_threads(
    job: Job, settings: Rows[SettingValues], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding."""
    # Without names of hosts all ranks may share one.
    spare = {
        rank: each / len(job.steps.counts)
        for rank in job.steps.counts
        if (each := cores_per_thread(job, settings, rank)) is not None and each / len(job.steps.counts) * FEW.value >= 1
    }
    large = threaded(job, settings, ops, computes, "large operators", LIMIT, LARGE_NS, spare)
    if large is None:
        return
    found, cores, threads = large.found, large.cores, large.threads
    rank = found.worst.rank
    share = 1 - 1 / spare[rank]
    yield Loss(
        message=f"Large operators run on {threads} of {cores} cores{on(job, found)}",
        ranks=found.ranks,
        blames=(Blame(f"torch.num_threads={threads}", "setting"), *named(large.worst)),
        cost_ns=round(found.cost_ns * share),
        share=found.share * share,
        gain=Gain(
            low_ns=round(found.cost_ns * share * SPEEDUP.value),
            high_ns=round(found.cost_ns * share),
            method="bound: the operators share all cores of the rank evenly",
        ),
        confidence=confidence("CPU011"),
        assumed=True,
        evidence=(
            *found.evidence,
            fact(job, rank, "threads for each core", round(1 / spare[rank], 4), "threads", FEW.value, "settings"),
            *large.evidence,
        ),
        actions=(
            Action(
                title="Give each rank its share of the cores",
                do=f"export OMP_NUM_THREADS={int(spare[rank] * threads)}, or torch.set_num_threads of as "
                "many, less the cores of the loader's workers.",
                verify="Large operators take about half the time with twice the threads.",
                risk="Where other processes need these cores, threads wait for each other (CPU010).",
                source="PyTorch performance tuning guide: OMP_NUM_THREADS; torch/distributed/run.py",
            ),
        ),
    )
