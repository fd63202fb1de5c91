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

from hermes.analyze.host_measures import Dispatch
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._dispatch import dispatch_cost, dispatch_of
from hermes.diagnose.rules._host import LAUNCHING, blamed, fact, free_for, host_loss, on, window_ns
from hermes.diagnose.rules._limits import FREE as LIMIT
from hermes.knowledge.host_work import OUTSIDE

SMALL = Threshold(value=0.5, unit="of tasks", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(
        measures,
        "free while the host hands over work",
        LIMIT,
        lambda split: dispatch_cost(measures, split.rank),
        window_ns,
    )
    if found is None:
        return
    rank = found.worst.rank
    row = dispatch_of(measures, rank)
    small = row is not None and row.small > SMALL.value * row.tasks
    yield Finding(
        code="CPU004",
        layer="cpu",
        cause="kernels shorter than their launch" if small else "dispatch",
        title=f"Handing over work leaves the device free for {found.share:.0%} of the step{on(measures, found)}"
        f"{': most kernels are shorter than a launch' if small else ''}",
        ranks=found.ranks,
        blames=blamed(measures, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the host is always ahead of the device"),
        confidence=round(0.75 * measures.certainty, 2),
        evidence=(*found.evidence, *_facts(measures, rank, row)),
        replay=("launch:graph",),
        within="CPU001",
        actions=_actions(measures.vendors.get(rank, ""), row, small=small),
    )


def _facts(measures: Measures, rank: int, row: Dispatch | None) -> Iterator[Evidence]:
    for reason in (*LAUNCHING, OUTSIDE):
        if ns := free_for(measures, rank, {reason}):
            yield fact(measures, rank, f"free, the host in: {reason}", ns, "ns")
    if row is None:
        return
    if row.ratio is not None:
        yield fact(measures, rank, "time of dispatch over time of kernels", round(row.ratio, 3), "")
    if row.interval_ns is not None and row.kernel_ns is not None:
        yield fact(measures, rank, "median time between two launches", row.interval_ns, "ns")
        yield fact(measures, rank, "median kernel", row.kernel_ns, "ns")
    if row.tasks:
        yield fact(measures, rank, "kernels under 10 us", row.small / row.tasks, "of tasks", SMALL.value)
        yield fact(measures, rank, "tasks launched when the device had none left", row.late / row.tasks, "of tasks")
    for depth in measures.host.depths:
        if depth.rank == rank:
            yield fact(measures, rank, "time in which the device's queue was empty", depth.empty, "of window")


def _actions(vendor: str, row: Dispatch | None, *, small: bool) -> tuple[Action, ...]:
    graph = Action(
        title="Launch the step as a graph",
        do="torch.npu.make_graphed_callables(model, (x,)) or torch.compile(model, backend='npugraphs')"
        if vendor == "ascend"
        else "torch.compile(model, mode='reduce-overhead') or torch.cuda.make_graphed_callables(model, (x,))",
        verify="Few launches are left in a step, and free time falls.",
        risk="Shapes and addresses are fixed, branches on data are frozen, the graph keeps its memory.",
        source="PyTorch notes on CUDA semantics: CUDA graphs; torch_npu's npugraphs",
    )
    more = Action(
        title="Give the device more for each launch",
        do="A larger micro-batch; fused operators and a fused optimizer (torch.optim.AdamW(…, fused=True), "
        "torch_npu.optim.NpuFusedAdamW); no Python loop over samples, heads or experts.",
        verify="The median kernel is longer than the time between two launches.",
        risk="A larger batch changes the convergence: adapt the learning rate.",
        source="PyTorch performance tuning guide; msprof-analyze's advisor on fused optimizers",
    )
    queue = Action(
        title="Let a second thread do more of the launching",
        do="export TASK_QUEUE_ENABLE=2",
        verify="The thread of the loop spends less time in operators, and free time falls.",
        risk="Peak memory may rise; without effect while ASCEND_LAUNCH_BLOCKING is 1.",
        source="torch_npu's list of environment variables: TASK_QUEUE_ENABLE",
    )
    two = row is not None and "TASK_QUEUE_ENABLE=2" in row.task_queue_source
    first = (graph, more) if small else (more, graph)
    return (*((queue,) if vendor == "ascend" and not two else ()), *first)


RULE = Rule(
    code="CPU004",
    page=__doc__ or "",
    find=find,
    cases=("CPU-11", "CPU-12", "CPU-13", "CPU-14", "CPU-15", "CPU-16", "CPU-22", "CPU-23", "CPU-25", "CPU-26", "CPU-29",
           "CPU-32", "CPU-34", "CPU-39", "CPU-43", "CPU-47", "ENV-01", "CPU-05", "CPU-06", "PAR-12"),
)  # fmt: skip
