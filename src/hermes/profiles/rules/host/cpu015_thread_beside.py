"""Another thread of the process runs while the step needs the interpreter, or its core.

## What it detects

A thread of Python beside the stepping one that is on a core while a capture of Hermes looks at all threads. The cost is
the part of the time that it is there, or that the stepping thread was on no core in the steps before the capture, the
smaller one: without what that thread itself waits for others, as for a batch from a queue; with a device at most what
that is free. Only captures of Hermes tell it.

## Why it costs you

One thread at a time runs Python. A thread that does not give the interpreter back keeps it for 5 ms, and the stepping
thread asks for it again after every operator. Where both share a core, each waits while the other computes.

## When it is not a problem

When the other thread is in operators or in libraries that let go of the interpreter, and has a core of its own: then
the stepping thread stands still for something else. When the device has work enough meanwhile.

## What to do

Let the thread wait where it polls (a queue's `get` or `put`, an event, a condition), move its work to a process, or do
less of it.

## How to check

The next capture sees the thread seldom on a core, and the step is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.measure.host.threads import ThreadRuns
from hermes.profiles.rules._code import idle_of, mean_steps
from hermes.profiles.rules._host import BEFORE_IT, before_of, fact, has_device, on_ranks
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.15, unit="of step", source="docs/evidence/host-limits.md")


@rule("CPU015", state="stable", fault=Fault.THREAD_BESIDE, cases=("CPU-39",), direct=True)
def thread_beside(
    job: Job, threads: Rows[ThreadRuns], unprofiled: Rows[Before], free: Rows[StepFree]
) -> Iterator[Loss]:
    """At most one finding, of the thread that costs most."""
    steps = mean_steps(job)
    costs: dict[int, tuple[int, int, ThreadRuns, Before]] = {}
    for row in threads:
        captured, before = steps.get(row.rank), before_of(unprofiled, row.rank)
        if not captured or before is None or before.cpu_ns is None or not before.step_ns:
            continue
        # No profiler makes a step shorter: what is counted is part of a step without it.
        step_ns = min(captured, before.step_ns)
        still = max(0.0, 1 - before.cpu_ns / before.step_ns - row.waits)
        ns = round(min(row.on_core, still) * step_ns)
        ns = min(ns, idle_of(free, row.rank)) if has_device(job, row.rank) else ns
        if by_share(LIMIT, ns / step_ns) and ns > costs.get(row.rank, (0,))[0]:
            costs[row.rank] = (ns, step_ns, row, before)
    if not costs:
        return
    cost, step_ns, row, before = max(costs.values(), key=lambda one: (one[0], -one[2].rank))
    ranks, share = tuple(sorted(costs)), cost / step_ns
    name = f" `{row.name}`" if row.name else ""
    where = f", at {row.line}" if row.line else ""
    yield Loss(
        message=f"Thread{name} runs beside the step{where}, and takes the interpreter or the core from it for up to "
        f"{share:.0%} of its time{on_ranks(job, ranks)}",
        ranks=ranks,
        blames=(Blame(row.line, "line"),) if row.line else (),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method="bound: the stepping thread goes on whenever it can", before=True),
        confidence=confidence("CPU015"),
        evidence=(
            fact(job, row.rank, "the thread on a core", row.on_core, "of the time", LIMIT.value),
            fact(job, row.rank, "stepping thread in a wait for others", row.waits, "of the looks"),
            *_counted(job, row.rank, before),
        ),
        lines=(row.line,) if row.line else (),
        actions=(_WAIT,),
    )


def _counted(job: Job, rank: int, before: Before) -> Iterator[Evidence]:
    still = max(0, before.step_ns - (before.cpu_ns or 0))
    yield fact(job, rank, "stepping thread on no core", still, "ns a step", source=BEFORE_IT)
    if before.delay_ns is not None:
        waited = "stepping thread ready, and on no core"
        yield fact(job, rank, waited, before.delay_ns, "ns a step", source=BEFORE_IT)


_WAIT = Action(
    title="Let the thread wait instead of polling, or move its work to a process",
    do="Where it polls (a loop around queue.full(), empty(), is_set() or sleep(0)): queue.put(item) and queue.get(), "
    "or event.wait(), which give the interpreter back. Where it computes in Python: a process "
    "(torch.multiprocessing, or the workers of a DataLoader).",
    verify="The next capture sees the thread seldom on a core, and the step is shorter.",
    risk="Data must pass between processes; a thread that waits ends only when it is told to.",
    source="case CPU-39; Python documentation: thread state and the global interpreter lock",
    whole=True,
)
