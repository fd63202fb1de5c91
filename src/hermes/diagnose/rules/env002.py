"""The profiler itself slows the host.

## What it detects

A capture with Python stacks or modules recorded, in which the host keeps the device waiting while it
runs operators and Python. How much of that the profiler adds is not known from one capture: the cost is the most that
it can be.

## Why it costs you

Stacks and memory recording run for every operator, on the thread that launches. A job that leaves such a profiler on is
slower than it need be, and a capture taken with it overstates every loss of the host.

## When it is not a problem

For a capture of a few steps of a job that runs without: then only the figures of the host are too high.

## What to do

Capture once more at a low level, without stacks and memory, and act on that. Give the profiler a schedule, so that it
ends.

## How to check

The step of the lean capture is as long as one that is timed without any profiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule
from hermes.diagnose.rules._dispatch import dispatch_cost
from hermes.diagnose.rules._host import blamed, fact, host_loss, on, setting, window_ns
from hermes.diagnose.rules._limits import FREE as LIMIT

_DEAR = ("with_stack", "with_modules", "profile_memory")
_ON = frozenset({"1", "true", "True"})


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(
        measures,
        "free while the host hands over work",
        LIMIT,
        lambda split: dispatch_cost(measures, split.rank) if _dear(measures, split.rank) else None,
        window_ns,
    )
    if found is None:
        return
    rank = found.worst.rank
    options = _dear(measures, rank)
    yield Finding(
        code="ENV002",
        layer="environment",
        cause="expensive profiling",
        title=f"The profiler records {', '.join(options)}, and may be part of the {found.share:.0%} of the step in "
        f"which the host hands over work too slowly{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *options),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=0, method="not known: a capture without tells how much of it the profiler adds"),
        confidence=round(0.3 * measures.certainty, 2),
        evidence=(*found.evidence, *(fact(measures, rank, f"{option} is on", 1.0, "setting") for option in options)),
        actions=(
            Action(
                title="Capture once more, lean",
                do="profile(with_stack=False, with_modules=False, profile_memory=False, record_shapes=False, "
                "schedule=schedule(wait=10, warmup=1, active=2, repeat=1)), on Ascend at Level0; compare both.",
                verify="If free time falls as far, the loss was the profiler's.",
                risk="Fewer details.",
                source="PyTorch documentation of torch.profiler: with_stack and profile_memory add overhead",
            ),
        ),
    )


def _dear(measures: Measures, rank: int) -> tuple[str, ...]:
    """What is recorded that costs time in every operator; nothing without Python frames, which cost most."""
    found = tuple(name for name in _DEAR if setting(measures, rank, name) in _ON)
    return found if set(found) - {"profile_memory"} else ()


RULE = Rule(code="ENV002", page=__doc__ or "", find=find, cases=("ENV-04",))
