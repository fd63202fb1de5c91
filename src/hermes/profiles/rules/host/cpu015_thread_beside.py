"""Another thread of the process runs Python while the step needs the interpreter, or its core.

## What it detects

A thread beside the stepping one that has the interpreter in at least a quarter of the looks that a capture of Hermes
takes at all threads; or that is on a core for at least a quarter of the time, where the process has no more cores than
its operators have threads. The cost is the smaller of that part and of the time in which the stepping thread was on no
core, or waited for one, counted in the steps before the capture; with a device at most what that is free. Only captures
of Hermes tell it.

## Why it costs you

One thread at a time runs Python. A thread that does not give the interpreter back keeps it for 5 ms, and the stepping
thread asks for it again after every operator. Where both share a core, each waits while the other computes.

## When it is not a problem

When the other thread is in operators or in libraries that let go of the interpreter: then it is not seen to go on in
Python. When the device has work enough meanwhile.

## What to do

Let the thread wait where it polls (a queue's `get` or `put`, an event, a condition), move its work to a process, or do
less of it.

## How to check

The next capture sees the thread in Python seldom, and the step is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.finding import Action, Blame, Cause, Evidence, Finding, Gain
from hermes.model.host_measures import Before, SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.measure.host.threads import ThreadRuns
from hermes.profiles.rules._code import idle_of, mean_steps
from hermes.profiles.rules._host import BEFORE_IT, before_of, fact, has_device, on_ranks
from hermes.profiles.rules._threads import cores_per_thread
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.25, unit="of the time", source="docs/evidence/host-limits.md")
FLOOR = Limit(value=0.1, unit="of step", source="docs/evidence/host-limits.md")


@rule("CPU015", state="preview", cause=Cause.THREAD_BESIDE, cases=("CPU-39",), direct=True)
def thread_beside(
    job: Job,
    threads: Rows[ThreadRuns],
    unprofiled: Rows[Before],
    free: Rows[StepFree],
    settings: Rows[SettingValues],
) -> Iterator[Finding]:
    """At most one finding, of the thread that costs most."""
    steps = mean_steps(job)
    costs: dict[int, tuple[int, ThreadRuns]] = {}
    for row in threads:
        step_ns = steps.get(row.rank)
        if not step_ns:
            continue
        ns = _cost(job, row, step_ns, unprofiled, free, settings)
        if by_share(FLOOR, ns / step_ns) and ns > costs.get(row.rank, (0, row))[0]:
            costs[row.rank] = (ns, row)
    if not costs:
        return
    cost, row = max(costs.values(), key=lambda one: (one[0], -one[1].rank))
    ranks = tuple(sorted(costs))
    share = cost / steps[row.rank]
    name = f" `{row.name}`" if row.name else ""
    where = f", at {row.line}" if row.line else ""
    yield Finding(
        title=f"Thread{name} runs Python beside the step{where}, and takes the interpreter or the core from it for up "
        f"to {share:.0%} of its time{on_ranks(job, ranks)}",
        ranks=ranks,
        blames=(Blame(row.line, "line"),) if row.line else (),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method="bound: the stepping thread goes on whenever it can"),
        confidence=round(0.7 * job.certainty, 2),
        evidence=(
            fact(job, row.rank, "the thread on a core", row.on_core, "of the time", LIMIT.value),
            fact(job, row.rank, "looks in which it went on in Python", row.share, "of the looks", LIMIT.value),
            *_counted(job, row, unprofiled),
        ),
        lines=(row.line,) if row.line else (),
        actions=(_WAIT,),
    )


def _cost(
    job: Job, row: ThreadRuns, step_ns: int, unprofiled: Rows[Before], free: Rows[StepFree],
    settings: Rows[SettingValues],
) -> int:  # fmt: skip
    before, cores = before_of(unprofiled, row.rank), cores_per_thread(job, settings, row.rank)
    locked = row.share if by_share(LIMIT, row.share) else 0.0
    crowded = row.on_core if by_share(LIMIT, row.on_core) and cores is not None and cores <= 1 else 0.0
    if before is not None and before.step_ns:
        if before.cpu_ns is not None:
            locked = min(locked, max(0.0, 1 - before.cpu_ns / before.step_ns))
        crowded = min(crowded, (before.delay_ns or 0) / before.step_ns)
    ns = round(max(locked, crowded) * step_ns)
    return min(ns, idle_of(free, row.rank)) if has_device(job, row.rank) else ns


def _counted(job: Job, row: ThreadRuns, unprofiled: Rows[Before]) -> Iterator[Evidence]:
    before = before_of(unprofiled, row.rank)
    if before is not None and before.cpu_ns is not None:
        still = max(0, before.step_ns - before.cpu_ns)
        yield fact(job, row.rank, "stepping thread on no core", still, "ns a step", source=BEFORE_IT)
    if before is not None and before.delay_ns is not None:
        waited = "stepping thread ready, and on no core"
        yield fact(job, row.rank, waited, before.delay_ns, "ns a step", source=BEFORE_IT)


_WAIT = Action(
    title="Let the thread wait instead of polling, or move its work to a process",
    do="Where it polls (a loop around queue.full(), empty(), is_set() or sleep(0)): queue.put(item) and queue.get(), "
    "or event.wait(), which give the interpreter back. Where it computes in Python: a process "
    "(torch.multiprocessing, or the workers of a DataLoader).",
    verify="The next capture sees the thread in Python seldom, and the step is shorter.",
    risk="Data must pass between processes; a thread that waits ends only when it is told to.",
    source="case CPU-39; Python documentation: thread state and the global interpreter lock",
    whole=True,
)
