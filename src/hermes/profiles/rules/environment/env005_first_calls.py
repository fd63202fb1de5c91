"""The capture holds the program's first calls: code is loaded, and contexts and libraries are set up.

## What it detects

Launches of a millisecond and more, and allocations of 50 ms and more, in which the device has nothing to do, where most
steps have none: their time a step, as a share of the step.

## Why it costs you

It costs the job nothing: it happens once. But it makes the capture one of the start, and not of the steps that follow:
shares and gains of everything else are then of a step that never comes again.

## When it is not a problem

When the start is what you want to see. A process that starts often, such as one for each request, pays it each time.

## What to do

Leave the first steps out, and record later ones.

## How to check

The next capture has none of these calls, and its steps are as long as those without a profiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import FirstCalls
from hermes.model.job import Job, Rows
from hermes.model.measures import StepSplit
from hermes.profiles.rules._host import blamed, fact, host_loss, on
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule


@rule("ENV005", state="stable", fault=Fault.FIRST_CALLS)
def first_calls(job: Job, first: Rows[FirstCalls]) -> Iterator[Loss]:
    """One finding of launches, and one of allocations."""
    for allocation in (False, True):
        rows = {row.rank: row for row in first if row.allocation is allocation}
        found = host_loss(job, "free in first calls of the program", LIMIT, partial(_cost, rows))
        if found is None:
            continue
        row = rows[found.worst.rank]
        whole = "the step" if row.steps > 1 else "what was recorded"
        yield Loss(
            message=f"First calls of the program take {found.share:.0%} of {whole}{on(job, found)}: {_what(row)}",
            ranks=found.ranks,
            blames=blamed(job, found, *(Blame(name) for name, _, _ in row.names)),
            cost_ns=found.cost_ns,
            share=found.share,
            gain=Gain(
                low_ns=found.cost_ns, high_ns=found.cost_ns, basis="replayed",
                method="of what was recorded: later steps have none of these calls",
            ),
            confidence=confidence("ENV005"),
            evidence=(
                *found.evidence,
                fact(job, row.rank, "longest call", row.longest_ns, "ns", at_ns=row.longest_at_ns),
                fact(job, row.rank, "such calls", row.calls, "calls"),
            ),
            # Allocations are not in the time of dispatch.
            within="CPU001" if allocation else "CPU004",
            actions=(_LATER,),
        )  # fmt: skip


def _cost(rows: Mapping[int, FirstCalls], split: StepSplit) -> int | None:
    row = rows.get(split.rank)
    return row.free_ns // row.steps if row else None


def _what(row: FirstCalls) -> str:
    name = row.names[0][0]
    return f"{name} sets a context or a library up" if row.allocation else f"{name} loads code"


_LATER = Action(
    title="Leave the start out, and record later steps",
    do="profile(schedule=torch.profiler.schedule(wait=10, warmup=3, active=3)) with prof.step() at the end of each; "
    "or run ten steps before the profiler starts.",
    verify="The next capture has no launch of a millisecond, and its steps are alike.",
    risk="none",
    source="PyTorch documentation of torch.profiler.schedule",
)
