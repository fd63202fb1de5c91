"""Operators are compiled while the step runs.

## What it detects

Free time of the device while the host compiles (calls of `aclopCompileAndExecute`, ranges of Dynamo and Inductor, the
loading of modules) and, for `aclop` calls, until the next task arrives; per step, as a share of the step. On a job
without a device it is the time of these calls. The time counts, not the number of calls, so that a capture of one step
and one of a hundred say the same.

## Why it costs you

Compilation holds the thread that feeds the device. Binary kernels (aclnn) and compiled graphs that fit need none.

## When it is not a problem

In the first steps, where every new shape is compiled once. When the device has work queued for longer than the call:
then it is not free, and the rule stays silent.

## What to do

On Ascend turn online compilation off. With `torch.compile` mark what changes as dynamic. Keep shapes fixed or in
buckets where they differ from step to step.

## How to check

Profile again after the warm-up: the calls are gone or take no time, and free time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import OFFLINE_KERNELS
from hermes.knowledge.host_work import COMPILATION
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.host_measures import HostEvents, Shapes
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import HostStall
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._host import (
    blamed,
    bound,
    event_cost,
    events_of,
    fact,
    has_device,
    host_loss,
    larger,
    of_events,
    of_stalls,
    on,
    stall_cost,
    within,
)
from hermes.profiles.rules._input import where_verb
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.01, unit="of step", source="docs/evidence/cpu002.md")
NEW = Limit(value=0.05, unit="of shapes", source="docs/evidence/host-limits.md")


@rule(
    "CPU002",
    state="stable",
    fault=Fault.COMPILATION,
    cases=("CPU-01", "CPU-02", "CPU-03", "CPU-04", "CPU-07", "CPU-09", "CPU-10", "CPU-08"),
)
def recompilation(
    job: Job, stalls: Rows[HostStall], free: Rows[StepFree], events: Rows[HostEvents], new_shapes: Rows[Shapes]
) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job,
        "free device time in and after the calls",
        LIMIT,
        lambda split: larger(
            stall_cost(job, stalls, split.rank, COMPILATION), event_cost(job, events, split.rank, COMPILATION)
        ),
    )
    if found is None:
        return
    rank = found.worst.rank
    row = events_of(events, rank, COMPILATION)
    names = [name for name, _, _ in row.names] if row else []
    names = names or [name for one in stalls.of(rank) if one.cause == COMPILATION for name in one.names]
    fresh = _new_shapes(job, new_shapes, rank)
    yield Loss(
        fault=Fault.COMPILATION_OF_NEW_SHAPES if fresh else None,
        message=f"Compiling operators {where_verb(job, found)}{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, *map(Blame, names[:1])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "no call is left, and nothing else holds the host"),
        confidence=confidence("CPU002"),
        evidence=(
            *found.evidence,
            *of_stalls(job, stalls, rank, COMPILATION),
            *(of_events(job, row) if row else ()),
            *fresh,
        ),
        replay=("host:compilation=0",) if has_device(job, rank) else (),
        apart=not within(free, rank, {COMPILATION}),
        actions=(
            *((_fixed(),) if fresh else ()),
            _offline() if any(name.lower().startswith("aclop") for name in names) else _dynamic(),
        ),
    )


def _new_shapes(job: Job, new_shapes: Rows[Shapes], rank: int) -> tuple[Evidence, ...]:
    """How many shapes no step before had, where that is more than a few."""
    row = next(iter(new_shapes.of(rank)), None)
    if row is None or row.new is None or row.new <= NEW.value * row.distinct:
        return ()
    return (fact(job, rank, "shapes that no step before had", row.new / row.distinct, "of shapes", NEW.value),)


def _offline() -> Action:
    return OFFLINE_KERNELS


def _dynamic() -> Action:
    return Action(
        title="Let compiled code fit what changes",
        do="Run with TORCH_LOGS=recompiles to see which guard fails; then torch._dynamo.mark_dynamic(x, 1), or "
        "torch.compile(model, dynamic=True); keep numbers that change in tensors.",
        verify="TORCH_LOGS=recompiles prints nothing after the warm-up, and free time falls.",
        risk="Kernels for any shape can be slower than those for one.",
        source="PyTorch documentation of torch.compile: recompilation",
    )


def _fixed() -> Action:
    return Action(
        title="Keep shapes in few buckets",
        do="Pad lengths to a multiple, length = -(-length // 128) * 128, or sort samples into buckets of one length.",
        verify="Steps after the warm-up have no operator with a shape that is new.",
        risk="Padding is computed too.",
        source="PyTorch performance tuning guide: preallocate memory in case of variable input length",
    )
