"""A function of the program's own takes much of the step, and trains nothing in it.

## What it detects

Time of the stepping thread in a function of the program, or in what it calls that is neither the framework's nor
another function of the program: bytecode, builtins, libraries such as NumPy. Where no module runs in the function and
none of its operators needs a gradient, they count, too, from twice the limit on; from the limit on where they start
from constants alone. Per step, mean over the capture, as a
share of the step. Where a device works, only what it is free of the Python counts, and of the operators what they take
of the device. Functions that a data loader calls are IO001's. Python frames tell it, and stacks the operators; where
neither was recorded, how often a function was seen, up to the time in no recorded call.

## Why it costs you

Python runs one thing at a time, and the device gets no work meanwhile. A loop over elements in Python is ten to a
hundred times slower than one operator over all of them. Work that no gradient needs, as statistics, copies and
bookkeeping, delays the training.

## When it is not a problem

When the function is the point of the program, as a simulator that cannot be vectorised is or the targets of
reinforcement learning, or when the capture happens to hold one of few calls. A profiler lengthens functions that make
many short calls: the gain says by how much.

## What to do

Look at the line. Replace loops over elements with operators, take out of the step what gives the same each time, do
rarely what need not be done in each step, and hand the rest to workers or to another thread.

## How to check

The line no longer stands among those where the time goes, and the step is shorter by its cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OUTSIDE
from hermes.model.code_measures import CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import StepHost
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._code import (
    beside_training,
    evidence_of,
    gain_of,
    growing,
    idle_of,
    mean_steps,
    outside_loaders,
)
from hermes.profiles.rules._host import has_device, on_ranks
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.1, unit="of step is Python", source="docs/evidence/host-limits.md")
BESIDE = Limit(value=0.2, unit="of step, with operators that need no gradient", source="docs/evidence/host-limits.md")
_MOST = 3


@rule("HOT001", state="stable", fault=Fault.HOT_FUNCTION)
def own_function(job: Job, lines: Rows[CodeLine], free: Rows[StepFree], host_steps: Rows[StepHost]) -> Iterator[Loss]:
    """The functions that are beyond a limit on some rank, at most three."""
    found: dict[str, tuple[int, float, CodeLine]] = {}
    costs: dict[str, dict[int, int]] = {}
    training, steps = {row.rank for row in lines if row.trains}, mean_steps(job)
    for row in outside_loaders(lines):
        step_ns = steps.get(row.rank)
        if not step_ns:
            continue
        # Where nothing trains, as in inference, no operator is beside the training.
        python, work = _python(job, row, free, host_steps), _work(job, row) if row.rank in training else 0
        whole = by_share(LIMIT if row.made else BESIDE, (python + work) / step_ns)
        cost = min(python + work if whole else python, step_ns)
        costs.setdefault(row.said, {})[row.rank] = cost
        if by_share(LIMIT, cost / step_ns) and found.get(row.said, (0,))[0] < cost:
            found[row.said] = (cost, cost / step_ns, row)
    for cost, share, row in sorted(found.values(), key=lambda one: (-one[0], one[2].said))[:_MOST]:
        ranks = tuple(sorted(rank for rank, ns in costs[row.said].items() if ns * 2 >= cost))
        what = "Python" if row.python_ns >= row.operator_ns else "operators that no gradient needs"
        if row.source == "samples":
            what = "time in no recorded call"
        yield Loss(
            message=f"{row.said}: {what}, {share:.0%} of the step{_calls(row)}{on_ranks(job, ranks)}{growing(row)}",
            ranks=ranks,
            blames=(Blame(row.said, "line"),),
            cost_ns=cost,
            share=min(share, 1.0),
            gain=gain_of(job, row.rank, cost, "the function's own time, from half of it to all"),
            confidence=confidence("HOT001.python" if by_share(BESIDE, share) and what == "Python" else "HOT001"),
            evidence=evidence_of(job, row, share, LIMIT.value),
            lines=(row.said, *_written_in(row)),
            actions=(_at(row),),
        )


def _python(job: Job, row: CodeLine, free: Rows[StepFree], host_steps: Rows[StepHost]) -> int:
    """What of the function's Python the step could lose: where a device works, at most what that is free."""
    ns = row.python_ns
    if row.source == "samples":
        ns = min(row.python_ns, sum(host.of(OUTSIDE) for host in host_steps.of(row.rank)))
    return min(ns, idle_of(free, row.rank)) if has_device(job, row.rank) else ns


def _work(job: Job, row: CodeLine) -> int:
    """Its operators, where it trains nothing."""
    if not beside_training(row):
        return 0
    return row.device_ns if has_device(job, row.rank) else row.operator_ns + row.framework_ns + row.launch_ns


def _calls(row: CodeLine) -> str:
    if row.calls is None or row.calls < 1:
        return ""
    many = f"{row.calls:.0f}" if row.calls >= 1.5 else "one"
    return f", in {many} call{'' if many == 'one' else 's'}"


def _written_in(row: CodeLine) -> tuple[str, ...]:
    """The function that an expression stands in, which Python runs as one of its own."""
    return (row.caller,) if row.function.startswith("<") and row.caller else ()


def _at(row: CodeLine) -> Action:
    if row.made and not row.modules:
        return replace(_ANEW, title=f"Make what {row.said} returns once, before the loop, and keep it")
    if row.modules or row.trains or row.source == "samples":
        return _look_at(row)
    return replace(_VECTORISE, title=f"{row.said}: make it an operator, do it rarely, or take it out of the step")


def _look_at(row: CodeLine) -> Action:
    """Of a function that trains, or is only known from samples: what in it to look at."""
    lines = ", ".join(f"{line} ({share:.0%})" for line, share in row.lines)
    calls = ", ".join(name for name, _ in row.names)
    seen = f"It is seen most at {lines}. " if lines else ""
    mostly = f"It calls most of all {calls}. " if calls else ""
    return replace(_LOOK, title=f"Look at what {row.said} does beside the training", do=f"{seen}{mostly}{_LOOK.do}")


_LOOK = Action(
    title="Look at what it does beside the training",
    do="Loops over elements, conversions of arrays and lists, printing and bookkeeping at these lines can be done for "
    "whole tensors, more rarely, by workers of a loader, or after the loop.",
    verify="The line no longer stands among those where the time goes.",
    risk="What training rests on must stay: gradients, their exchange between ranks, the optimizer.",
    source="PyTorch performance tuning guide",
    whole=True,
)
_VECTORISE = Action(
    title="Make it an operator, do it rarely, or take it out of the step",
    do="Replace loops over elements by operators over whole tensors or arrays; take out of the step what gives the "
    "same each time; do every hundred steps what need not be done in each; give the rest to workers or to a thread.",
    verify="The line no longer stands among those where the time goes.",
    risk="What training rests on must stay: gradients, their exchange between ranks, the optimizer.",
    source="PyTorch performance tuning guide",
)
_ANEW = Action(
    title="Make it once, before the loop, and keep it",
    do="Its operators start from constants alone. If its arguments are the same in each step, call it once and keep "
    "what it returns: self.register_buffer(name, value) in a module, functools.lru_cache on a function.",
    verify="The function is no longer called in a step.",
    risk="What depends on the step's data must stay.",
    source="PyTorch documentation of torch.nn.Module.register_buffer",
)
