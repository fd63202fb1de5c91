"""A job on a processor computes with more or with fewer threads than it has cores.

## What it detects

On a job without a device, the rule compares the threads of PyTorch's operators (torch.get_num_threads()) with the cores
that the process may use. Hermes' own capture records both. With more threads than cores, the cost is at most the time
of operators that are worth several threads (10 us and more), per step. With at most half as many threads as cores, the
cost is at most the time of operators that take a tenth of a millisecond or more.

## Why it costs you

The threads of an operator wait for each other at its end. With fewer cores than threads, the last thread has not even
begun when the first one is done, and waiting threads occupy the cores. With too few threads, cores are unused: a
product of large matrices takes about half the time on two cores. `torchrun` sets OMP_NUM_THREADS=1 unless you set it.

## When it is not a problem

Few threads are right if operators are too small for several threads, or if workers of the loader or other jobs use the
other cores. The capture does not tell which program uses a core.

## What to do

Give each rank its share of the physical cores, less those of the loader: set `OMP_NUM_THREADS` or call
`torch.set_num_threads`.

## How to check

Profile again: the same operators take less time. With twice the threads, large operators take about half the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Count, Message, Name, Share, message, sentence
from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import named
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import fact
from hermes.profiles.rules._threads import cores_per_thread, threaded
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

MANY = Limit(value=0.10, unit="of window", source="docs/evidence/cpu009.md")
CROWDED = Limit(
    value=0.66,
    unit="cores for each thread: then they suffice",
    source="PyTorch, CPU threading: no more threads than cores",
)
WON = Limit(value=0.5, unit="of the time of these operators", source="docs/evidence/cpu009.md")
WORTH_NS = Limit(value=10_000, unit="ns an operator, to be worth several threads", source="docs/evidence/cpu009.md")
LARGE = Limit(value=0.30, unit="of window", source="docs/evidence/cpu009.md")
FEW = Limit(value=0.5, unit="threads for each core", source="PyTorch, CPU threading: a thread for each core")
LARGE_NS = Limit(value=100_000, unit="ns an operator, to be worth several threads", source="docs/evidence/cpu009.md")
SPEEDUP = Limit(value=0.8, unit="of the gain that twice the threads could give", source="docs/evidence/cpu009.md")


@rule(
    "CPU010",
    state="preview",
    fault=Fault.MORE_THREADS_THAN_CORES,
    layer="environment",
    cases=("CPU-35", "CPU-38", "CMP-28"),
)
def number_of_threads(
    job: Job, settings: Rows[SettingValues], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding of too many threads, and at most one of too few threads."""
    each = {rank: cores for rank in job.steps.counts if (cores := cores_per_thread(job, settings, rank)) is not None}
    yield from _too_many(job, settings, ops, computes, each)
    yield from _too_few(job, settings, ops, computes, each)


def _too_many(
    job: Job,
    settings: Rows[SettingValues],
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    each: Mapping[int, float],
) -> Iterator[Loss]:
    crowded = {rank: cores for rank, cores in each.items() if cores < CROWDED.value}
    shared = threaded(job, settings, ops, computes, THREADED, MANY, WORTH_NS, crowded)
    # A single thread cannot be too many, however many ranks there are.
    if shared is None or shared.threads < 2:
        return
    found, there, threads = shared.found, shared.cores, shared.threads
    rank = found.worst.rank
    yield Loss(
        message=crowd(threads=threads, cores=there, on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=(Blame(f"torch.num_threads={threads}", "setting"), *named(shared.worst)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(found.cost_ns, crowded[rank]),
        confidence=confidence("CPU010"),
        evidence=(
            *found.evidence,
            fact(job, rank, CORES_EACH, round(crowded[rank], 4), "cores", CROWDED.value, "settings"),
            *shared.evidence,
        ),
        actions=(
            Action(
                title=NO_MORE,
                do=no_more_do(threads=str(there)),
                verify=NO_MORE_VERIFY,
                risk=NO_RISK,
                source="PyTorch performance tuning guide: OMP_NUM_THREADS; CPU threading and TorchScript inference",
                fit=OF_TORCH,
                cases=("CPU-35", "CMP-28"),
            ),
        ),
    )


def _gain(cost_ns: int, cores: float) -> Gain:
    """The gain: from the least measured saving to that of spinning threads, where the last waits for all others."""
    high = max(WON.value, 1 - cores)
    return Gain(
        low_ns=round(cost_ns * WON.value),
        high_ns=round(cost_ns * high),
        method=half_up_to(share=percents(high)),
    )


def _too_few(
    job: Job,
    settings: Rows[SettingValues],
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    each: Mapping[int, float],
) -> Iterator[Loss]:
    # Without host names all ranks may be on one host.
    ranks = len(job.steps.counts)
    spare = {rank: cores / ranks for rank, cores in each.items() if cores / ranks * FEW.value >= 1}
    large = threaded(job, settings, ops, computes, LARGE_OPERATORS, LARGE, LARGE_NS, spare)
    if large is None:
        return
    found, cores, threads = large.found, large.cores, large.threads
    rank = found.worst.rank
    share = 1 - 1 / spare[rank]
    yield Loss(
        fault=Fault.FEWER_THREADS_THAN_CORES,
        message=few(threads=threads, cores=cores, on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=(Blame(f"torch.num_threads={threads}", "setting"), *named(large.worst)),
        cost_ns=round(found.cost_ns * share),
        share=found.share * share,
        gain=Gain(
            low_ns=round(found.cost_ns * share * SPEEDUP.value),
            high_ns=round(found.cost_ns * share),
            method=at_most(when=EVENLY),
        ),
        confidence=confidence("CPU010.too_few"),
        assumed=True,
        evidence=(
            *found.evidence,
            fact(job, rank, THREADS_EACH, round(1 / spare[rank], 4), "threads", FEW.value, "settings"),
            *large.evidence,
        ),
        actions=(
            Action(
                title=ITS_SHARE,
                do=its_share_do(threads=str(int(spare[rank] * threads))),
                verify=ITS_SHARE_VERIFY,
                risk=ITS_SHARE_RISK,
                source="PyTorch performance tuning guide: OMP_NUM_THREADS; torch/distributed/run.py",
                fit=OF_TORCH,
                cases=("CPU-35", "CMP-28"),
            ),
        ),
    )


THREADED = sentence("cpu010.threaded")
CORES_EACH = sentence("cpu010.cores_each")
NO_MORE = sentence("cpu010.no_more")
NO_MORE_VERIFY = sentence("cpu010.no_more_verify")
LARGE_OPERATORS = sentence("cpu010.large")
EVENLY = sentence("cpu010.evenly")
THREADS_EACH = sentence("cpu010.threads_each")
ITS_SHARE = sentence("cpu010.its_share")
ITS_SHARE_VERIFY = sentence("cpu010.its_share_verify")
ITS_SHARE_RISK = sentence("cpu010.its_share_risk")


@message("cpu010.crowd")
def crowd(*, threads: Count, cores: Count, on: Message | None = None) -> None:
    """There are more threads than cores."""


@message("cpu010.no_more_do")
def no_more_do(*, threads: Name) -> None:
    """How to limit threads to the number of cores."""


@message("cpu010.half_up_to")
def half_up_to(*, share: Share) -> None:
    """The saving that fewer threads give."""


@message("cpu010.few")
def few(*, threads: Count, cores: Count, on: Message | None = None) -> None:
    """There are fewer threads than cores."""


@message("cpu010.its_share_do")
def its_share_do(*, threads: Name) -> None:
    """How to use all cores."""
