"""Operators are compiled while the step runs.

## What it detects

The rule counts idle time of the device while the host compiles: calls of `aclopCompileAndExecute`, ranges of Dynamo and
Inductor, the loading of modules. After `aclop` calls, the device stays idle until the next task arrives, and this time
counts too. Idle time is per step, as a share of the step. On a job without a device, the time of the compiling calls
counts. The rule measures time instead of counting calls: captures of one step and of a hundred steps give the same
answer.

## Why it costs you

Compilation blocks the thread that feeds the device. Binary kernels (aclnn) and compiled graphs that fit the shapes need
no compilation.

## When it is not a problem

Compilation in the first steps is no problem, because every new shape is compiled once. If the device has queued work
for longer than the call, it is not idle, and the rule is silent.

## What to do

On Ascend, turn online compilation off. With `torch.compile`, mark changing sizes as dynamic. Keep shapes fixed, or pad
them to a few sizes if they differ from step to step.

## How to check

Profile again after the warm-up: the calls are gone or take no time, and idle time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import COMPILATION
from hermes.knowledge.vendor_cures import OFFLINE_KERNELS
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.host_measures import HostEvents, Shapes
from hermes.model.job import Job, Rows
from hermes.model.leaf import Leaf
from hermes.model.limit import Limit
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
)
from hermes.profiles.rules.evidence_messages import FREE_IN_CALLS
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import effect, some_of

LIMIT = Limit(value=0.01, unit="of step", source="docs/evidence/cpu002.md")
_COMPILES = frozenset({Leaf.COMPILING})
NEW = Limit(value=0.05, unit="of shapes", source="docs/evidence/host-limits.md")


@rule(
    "CPU002",
    state="stable",
    fault=Fault.COMPILATION,
    cases=("CPU-01", "CPU-02", "CPU-03", "CPU-04", "CPU-07", "CPU-09", "CPU-10", "CPU-08"),
)
def recompilation(job: Job, events: Rows[HostEvents], new_shapes: Rows[Shapes]) -> Iterator[Loss]:
    """At most one finding, of compilations inside steps."""
    found = host_loss(
        job,
        FREE_IN_CALLS,
        LIMIT,
        lambda split: larger(job.room_ns(split.rank, _COMPILES), event_cost(job, events, split.rank, COMPILATION)),
    )
    if found is None:
        return
    rank = found.worst.rank
    row = events_of(events, rank, COMPILATION)
    names = [name for name, _, _ in row.names] if row else []
    fresh = _new_shapes(job, new_shapes, rank)
    yield Loss(
        fault=Fault.COMPILATION_OF_NEW_SHAPES if fresh else None,
        message=compiling(effect=effect(job, found), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, *map(Blame, names[:1])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, NO_CALL_LEFT),
        confidence=confidence("CPU002"),
        evidence=(
            *found.evidence,
            *(of_events(job, row) if row else ()),
            *fresh,
        ),
        replay=("host:compilation=0",) if has_device(job, rank) else (),
        actions=(
            *((_FIXED,) if fresh else ()),
            *(OFFLINE_KERNELS if any(name.lower().startswith("aclop") for name in names) else (_DYNAMIC,)),
        ),
    )


def _new_shapes(job: Job, new_shapes: Rows[Shapes], rank: int) -> tuple[Evidence, ...]:
    """How many shapes occurred in no earlier step, if there are more than a few."""
    row = next(iter(new_shapes.of(rank)), None)
    if row is None or row.new is None or row.new <= NEW.value * row.distinct:
        return ()
    return (fact(job, rank, NEW_SHAPES, row.new / row.distinct, "of shapes", NEW.value),)


NO_CALL_LEFT = sentence("cpu002.no_call_left")
NEW_SHAPES = sentence("cpu002.new_shapes")


@message("cpu002.compiling")
def compiling(*, effect: Message, on: Message | None = None) -> None:
    """Operators are compiled inside steps."""


_DYNAMIC = Action(
    title=sentence("cpu002.dynamic"),
    do=sentence("cpu002.dynamic_do"),
    verify=sentence("cpu002.dynamic_verify"),
    risk=sentence("cpu002.dynamic_risk"),
    source="PyTorch documentation of torch.compile: recompilation",
    fit=OF_TORCH,
    cases=("CPU-03", "CPU-04"),
)
_FIXED = Action(
    title=sentence("cpu002.fixed"),
    do=sentence("cpu002.fixed_do"),
    verify=sentence("cpu002.fixed_verify"),
    risk=sentence("cpu002.fixed_risk"),
    source="PyTorch performance tuning guide: preallocate memory in case of variable input length",
    cases=("CPU-02",),
)
