"""The host hands work over more slowly than the device does it.

## What it detects

Free time of the device while the host runs operators, Python code and launches, or while a launch is under way, as a
share of the window of the typical step. Waiting, compiling, allocating, fetching batches and collections are not in it:
they are rules of their own. Beside it stand the time of dispatch over that of kernels, the time between two launches
against that of a kernel, and how many kernels are shorter than a launch.

## Why it costs you

The device does each task faster than the next one arrives. A faster device would not make the step shorter.

## When it is not a problem

When the profiler makes the host slow: Python stacks and memory recording can multiply the time of an operator (ENV002).
Compare with a capture without them before acting.

## What to do

Give the device more for each launch: a larger batch, fused operators, a captured graph. Take work off the host: the
task queue of torch_npu, a fused optimizer, no Python loops over tensors.

## How to check

Profile again without stacks: free time falls, and more tasks are queued when the step ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import BETWEEN_GRAPHS, DEEPER_TASK_QUEUE, MORE_PER_LAUNCH, launch_as_graph
from hermes.knowledge.host_work import OUTSIDE
from hermes.knowledge.vendors import QUEUE_SETTING, Traits, traits
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.host_measures import Dispatch, QueueDepth, StepHost, SyncCall
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._dispatch import dispatch_cost, dispatch_of
from hermes.profiles.rules._host import LAUNCHING, blamed, fact, free_for, host_loss, on, window_ns
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule

SMALL = Limit(value=0.5, unit="of tasks", source="docs/evidence/host-limits.md")
IN_GRAPHS = Limit(value=0.5, unit="of tasks", source="most of what a launch costs is saved already")


@rule(
    "CPU004",
    state="stable",
    fault=Fault.DISPATCH,
    cases=(
        "CPU-11",
        "CPU-12",
        "CPU-13",
        "CPU-14",
        "CPU-15",
        "CPU-16",
        "CPU-22",
        "CPU-23",
        "CPU-25",
        "CPU-26",
        "CPU-29",
        "CPU-32",
        "CPU-34",
        "CPU-39",
        "CPU-47",
        "ENV-01",
        "CPU-05",
        "CPU-06",
        "PAR-12",
    ),
)
def slow_dispatch(
    job: Job,
    free: Rows[StepFree],
    host_steps: Rows[StepHost],
    dispatches: Rows[Dispatch],
    depths: Rows[QueueDepth],
    syncs: Rows[SyncCall],
) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job,
        "free while the host hands over work",
        LIMIT,
        lambda split: dispatch_cost(free, host_steps, split.rank, syncs),
        window_ns,
    )
    if found is None:
        return
    rank = found.worst.rank
    row = dispatch_of(dispatches, rank)
    small = row is not None and row.small > SMALL.value * row.tasks
    graphed = row is not None and row.graphed > IN_GRAPHS.value * row.tasks
    yield Loss(
        fault=Fault.SHORT_KERNELS if small and not graphed else None,
        message=f"Handing over work leaves the device free for {found.share:.0%} of the step{on(job, found)}"
        f"{_why(small=small, graphed=graphed)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the host is always ahead of the device"),
        confidence=confidence("CPU004"),
        evidence=(*found.evidence, *_facts(job, free, depths, rank, row)),
        replay=() if graphed else ("launch:graph",),
        actions=_actions(traits(job.vendors.get(rank, "")), row, small=small, graphed=graphed),
    )


def _facts(
    job: Job, free: Rows[StepFree], depths: Rows[QueueDepth], rank: int, row: Dispatch | None
) -> Iterator[Evidence]:
    for reason in (*LAUNCHING, OUTSIDE):
        if ns := free_for(free, rank, {reason}):
            yield fact(job, rank, f"free, the host in: {reason}", ns, "ns")
    if row is None:
        return
    if row.ratio is not None:
        yield fact(job, rank, "time of dispatch over time of kernels", round(row.ratio, 3), "")
    if row.interval_ns is not None and row.kernel_ns is not None:
        yield fact(job, rank, "median time between two launches", row.interval_ns, "ns")
        yield fact(job, rank, "median kernel", row.kernel_ns, "ns")
    if row.tasks:
        yield fact(job, rank, "kernels under 10 us", row.small / row.tasks, "of tasks", SMALL.value)
        yield fact(job, rank, "tasks launched when the device had none left", row.late / row.tasks, "of tasks")
    for depth in depths:
        if depth.rank == rank:
            yield fact(job, rank, "time in which the device's queue was empty", depth.empty, "of window")


def _why(*, small: bool, graphed: bool) -> str:
    if graphed:
        return ": most of its tasks come from a captured graph already"
    return ": most kernels are shorter than a launch" if small else ""


def _actions(device: Traits, row: Dispatch | None, *, small: bool, graphed: bool) -> tuple[Action, ...]:
    if graphed:
        return (BETWEEN_GRAPHS,)
    graph = launch_as_graph(device)
    more = MORE_PER_LAUNCH
    queue = DEEPER_TASK_QUEUE
    two = row is not None and f"{QUEUE_SETTING}=2" in row.task_queue_source
    first = (graph, more) if small else (more, graph)
    return (*((queue,) if device.task_queue and not two else ()), *first)
