"""A process computes with more threads than it has cores.

## What it detects

On a job without a device: the number of threads of PyTorch's operators beside the cores that the process may run on,
both as Hermes' own capture records them. The cost is at most the time of the operators
that are worth several threads (10 us and more), per step.

## Why it costs you

The threads of an operator wait for each other at its end. With fewer cores than threads the last one has not even begun
when the first is done, and those that wait spin on the cores that it needs.

## When it is not a problem

When operators are too small to be shared among threads at all.

## What to do

Give each rank its part of the physical cores, less those of the loader: `OMP_NUM_THREADS`, `torch.set_num_threads`.

## How to check

Profile again: the same operators take less time.
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

LIMIT = Limit(value=0.10, unit="of window", source="docs/evidence/cpu009.md")
FEW = Limit(
    value=0.66,
    unit="cores for each thread: then they suffice",
    source="PyTorch, CPU threading: no more threads than cores",
)
WON = Limit(value=0.5, unit="of the time of these operators", source="docs/evidence/cpu009.md")
WORTH_NS = Limit(value=10_000, unit="ns an operator, to be worth several threads", source="docs/evidence/cpu009.md")


@rule(
    "CPU010",
    state="preview",
    fault=Fault.MORE_THREADS_THAN_CORES,
    layer="environment",
    cases=("CPU-35", "CPU-38"),
    direct=True,
)
def too_many_threads(
    job: Job, settings: Rows[SettingValues], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding."""
    crowded = {
        rank: cores
        for rank in job.steps.counts
        if (cores := cores_per_thread(job, settings, rank)) is not None and cores < FEW.value
    }
    shared = threaded(job, settings, ops, computes, "operators on several threads", LIMIT, WORTH_NS, crowded)
    # One thread is no crowd, however many ranks there are.
    if shared is None or shared.threads < 2:
        return
    found, there, threads = shared.found, shared.cores, shared.threads
    rank = found.worst.rank
    yield Loss(
        message=f"Operators run on {threads} threads, and there are {there} cores{on(job, found)}",
        ranks=found.ranks,
        blames=(Blame(f"torch.num_threads={threads}", "setting"), *named(shared.worst)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(found.cost_ns, crowded[rank]),
        confidence=confidence("CPU010"),
        evidence=(
            *found.evidence,
            fact(job, rank, "cores for each thread", round(crowded[rank], 4), "cores", FEW.value, "settings"),
            *shared.evidence,
        ),
        actions=(
            Action(
                title="Use no more threads than cores",
                do=f"export OMP_NUM_THREADS={there}, fewer where ranks share the host, or torch.set_num_threads of as "
                "many; torchrun sets 1 where nothing is set; loaders' workers need cores, too.",
                verify="The same operators take less time, and the system switches threads less often (pidstat -w).",
                risk="none",
                source="PyTorch performance tuning guide: OMP_NUM_THREADS; CPU threading and TorchScript inference",
            ),
        ),
    )


def _gain(cost_ns: int, cores: float) -> Gain:
    """Between what was measured at least and threads that spin in their turn, so that the last waits for all others."""
    high = max(WON.value, 1 - cores)
    return Gain(
        low_ns=round(cost_ns * WON.value),
        high_ns=round(cost_ns * high),
        method=f"half of these operators' time, up to {high:.0%} where threads that wait keep the cores",
    )
