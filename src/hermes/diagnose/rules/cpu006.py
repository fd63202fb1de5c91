"""Python's garbage collector stops the step.

## What it detects

Time in which the device has nothing to do while the collector runs, per step, as a share of the step. It needs
collections in the profile: on Ascend `gc_detect_threshold`. Where they are not recorded, CPU007 says that something was
not. On a job without a device what Hermes' monitor counted before the capture takes their place: full collections come
each so many steps, and a short capture may have none, or too many.

## Why it costs you

A full collection walks every tracked object and holds the interpreter. Ranks collect at different steps, and all others
wait in the next collective.

## When it is not a problem

When it happens in one of hundreds of steps: the cost is per step of the capture, and a short one may overstate it.

## What to do

Freeze what start-up made, turn automatic collection off, and collect at the same step on all ranks.

## How to check

Run 50 steps with `gc.disable()`: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import (
    blamed,
    bound,
    counted,
    counted_fact,
    counted_step,
    event_cost,
    events_of,
    has_device,
    host_loss,
    of_events,
    on,
    within,
)
from hermes.diagnose.rules._input import where_verb
from hermes.knowledge.host_work import GC

LIMIT = Threshold(value=0.01, unit="of step", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    length = counted_step(measures, "gc_ns")
    found = host_loss(measures, "collecting garbage", LIMIT, lambda split: _cost(measures, split.rank), length)
    if found is None:
        return
    rank = found.worst.rank
    row = events_of(measures, rank, GC)
    yield Finding(
        code="CPU006",
        layer="cpu",
        cause="garbage collection",
        title=f"Collecting garbage {where_verb(measures, found)}{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(measures, found, "no collection inside the steps"),
        confidence=round(0.9 * measures.certainty, 2),
        calls=0.0,
        evidence=(*found.evidence, *counted_fact(measures, rank, "gc_ns"), *(of_events(measures, row) if row else ())),
        replay=("host:garbage-collection=0",) if has_device(measures, rank) else (),
        within=within(measures, rank, {GC}),
        actions=(
            Action(
                title="Collect when you choose, on all ranks at once",
                do="After start-up: gc.collect(); gc.freeze(); gc.disable(). Then every 500 steps: gc.collect(). "
                "Megatron: --manual-gc --manual-gc-interval 100. Drop gc.collect() from the loop.",
                verify="No collection is left in most steps, and free time falls.",
                risk="Memory of reference cycles stays until the next collection: watch it.",
                source="Python documentation of gc: freeze, disable; msprof-analyze's advisor on collections",
            ),
        ),
    )


def _cost(measures: Measures, rank: int) -> int | None:
    """Nanoseconds a step in collections; without a device of the steps before the capture, where these are told."""
    ns = counted(measures, rank, "gc_ns")
    return event_cost(measures, rank, GC) if ns is None else ns


RULE = Rule(code="CPU006", page=__doc__ or "", find=find, cases=("CPU-30", "CPU-31", "CPU-33", "CPU-46"))
