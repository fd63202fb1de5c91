"""The host launches work more slowly than the device finishes it.

## What it detects

The rule counts idle time of the device while the host runs operators, Python code and launches, as a share of the
window of the typical step. Time in which a launch is under way counts too. Waiting, compiling, allocating, fetching
batches and garbage collection have rules of their own. The finding also compares dispatch with kernels: their times,
the time between two launches, and how many kernels are shorter than a launch.

## Why it costs you

The device finishes each task before the next one arrives. A faster device would not make the step shorter.

## When it is not a problem

The profiler may slow the host: Python stacks and memory recording can multiply the time of an operator (ENV002).
Compare with a capture without stacks and memory before you act.

## What to do

Give the device more work with each launch: a larger batch, fused operators, a captured graph. Take work off the host:
use a fused optimizer, and avoid Python loops over tensors.

## How to check

Profile again without stacks: idle time falls, and more tasks are queued when the step ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import BETWEEN_GRAPHS, LAUNCH_AS_GRAPH, MORE_PER_LAUNCH
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.host_measures import Dispatch, QueueDepth
from hermes.model.job import Job, Rows
from hermes.model.leaf import LAUNCHES
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._dispatch import dispatch_cost, dispatch_of
from hermes.profiles.rules._host import blamed, fact, host_loss
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.evidence_messages import HANDING_OVER
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

SMALL = Limit(value=0.5, unit="of tasks", source="docs/evidence/host-limits.md")
IN_GRAPHS = Limit(value=0.5, unit="of tasks", source="graphs already save most of the cost of a launch")


@rule(
    "CPU004",
    state="stable",
    fault=Fault.DISPATCH,
    cases=(
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
def slow_dispatch(job: Job, dispatches: Rows[Dispatch], depths: Rows[QueueDepth]) -> Iterator[Loss]:
    """At most one finding, of a device that waits for launches."""
    found = host_loss(job, HANDING_OVER, LIMIT, lambda split: dispatch_cost(job, split.rank))
    if found is None:
        return
    rank = found.worst.rank
    row = dispatch_of(dispatches, rank)
    small = row is not None and row.small > SMALL.value * row.tasks
    graphed = row is not None and row.graphed > IN_GRAPHS.value * row.tasks
    yield Loss(
        fault=Fault.SHORT_KERNELS if small and not graphed else None,
        message=handing_over(
            share=percents(found.share), on=some_of(job, found.ranks), why=_why(small=small, graphed=graphed)
        ),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AHEAD)),
        confidence=confidence("CPU004"),
        evidence=(*found.evidence, *_facts(job, depths, rank, row)),
        replay=() if graphed else ("launch:graph",),
        actions=_actions(small=small, graphed=graphed),
    )


def _facts(job: Job, depths: Rows[QueueDepth], rank: int, row: Dispatch | None) -> Iterator[Evidence]:
    for leaf in sorted(LAUNCHES):
        if ns := job.room_ns(rank, frozenset({leaf})):
            yield fact(job, rank, host_in(leaf=leaf.message), ns, "ns")
    if row is None:
        return
    if row.ratio is not None:
        yield fact(job, rank, RATIO, round(row.ratio, 3), "")
    if row.interval_ns is not None and row.kernel_ns is not None:
        yield fact(job, rank, INTERVAL, row.interval_ns, "ns")
        yield fact(job, rank, KERNEL, row.kernel_ns, "ns")
    if row.tasks:
        yield fact(job, rank, SMALL_KERNELS, row.small / row.tasks, "of tasks", SMALL.value)
        yield fact(job, rank, LATE, row.late / row.tasks, "of tasks")
    for depth in depths:
        if depth.rank == rank:
            yield fact(job, rank, EMPTY, depth.empty, "of window")


def _why(*, small: bool, graphed: bool) -> Message | None:
    if graphed:
        return OF_A_GRAPH
    return SHORTER if small else None


def _actions(*, small: bool, graphed: bool) -> tuple[Action, ...]:
    if graphed:
        return BETWEEN_GRAPHS
    return (*LAUNCH_AS_GRAPH, *MORE_PER_LAUNCH) if small else (*MORE_PER_LAUNCH, *LAUNCH_AS_GRAPH)


AHEAD = sentence("cpu004.ahead")
OF_A_GRAPH = sentence("cpu004.of_a_graph")
SHORTER = sentence("cpu004.shorter")
RATIO = sentence("cpu004.ratio")
INTERVAL = sentence("cpu004.interval")
KERNEL = sentence("cpu004.kernel")
SMALL_KERNELS = sentence("cpu004.small_kernels")
LATE = sentence("cpu004.late")
EMPTY = sentence("cpu004.empty")


@message("cpu004.handing_over")
def handing_over(*, share: Share, on: Message | None = None, why: Message | None = None) -> None:
    """The device waits for the host to launch work."""


@message("cpu004.host_in")
def host_in(*, leaf: Message) -> None:
    """The time of one leaf of launching work."""
