"""Threads or processes are started in each step.

## What it detects

Time a step in which the training thread starts threads and processes (`threading.Thread.start`, `Process.start`,
`subprocess.Popen`, and what pools and executors call of these), and in which it ends pools whose results it has waited
for (`shutdown`, `terminate`, `join`): free time of the device meanwhile, or the host's own time where there is no
device. Only where at least half of the steps start some. Waiting for what they compute is left out, and so are the
workers of a loader, which are IO003's, and those of a compiler. Only Python frames tell it (`with_stack`).

## Why it costs you

A thread takes a tenth of a millisecond to start, while it and those before it already compete for the interpreter; a
process takes milliseconds, the more the larger the memory of the one that forks. All that waits on the thread that
feeds the device.

## When it is not a problem

Where what is started runs for many steps. Where the threads compute all the time that their starting takes, which
must then be waited for later: the lower end of the gain allows for that.

## What to do

Make one pool before the loop and hand it the tasks of each step; for tasks of microseconds, fewer and larger ones.

## How to check

Profile again: no frame of `start` is left in the step, and the step is shorter by the gain.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CHECKPOINT, DATA, PYTHON, STARTING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._host import (
    blamed,
    event_cost,
    events_of,
    has_device,
    host_loss,
    of_events,
    on,
    within,
    won,
)
from hermes.profiles.rules._input import where_verb
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/cpu012.md")
OFTEN = Limit(value=0.5, unit="of steps", source="docs/evidence/cpu012.md")
LEAST = Limit(value=0.5, unit="of it is won at least", source="docs/evidence/cpu012.md")


@rule("CPU012", state="preview", fault=Fault.THREADS_STARTED_ANEW, cases=("CPU-38",), direct=True)
def starts_each_step(job: Job, free: Rows[StepFree], events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(job, "starting threads and processes", LIMIT, lambda split: _cost(job, events, split.rank))
    row = events_of(events, found.worst.rank, STARTING) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=f"Starting threads or processes in each step {where_verb(job, found)}{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, row.rank, found.cost_ns),
        confidence=confidence("CPU012"),
        evidence=(*found.evidence, *of_events(job, row)),
        apart=not within(free, row.rank, {DATA, CHECKPOINT, PYTHON}),
        actions=(
            Action(
                title="Keep a pool of threads or processes",
                do="pool = ThreadPoolExecutor(max_workers=8), made once: in __init__ of the dataset, or before the "
                "loop; pool.map(load, samples) in each step. For processes: ProcessPoolExecutor, or "
                "torch.multiprocessing.Pool, made once, too.",
                verify="threading.py: start and process.py: start are gone from the step.",
                risk="A pool of threads does not survive a fork: a dataset that DataLoader workers copy must make its "
                "own in the worker, at first use. Tasks must not leave state behind in their thread.",
                source="Python documentation: concurrent.futures, ThreadPoolExecutor reuses idle threads; case CPU-38",
            ),
        ),
    )


def _cost(job: Job, events: Rows[HostEvents], rank: int) -> int | None:
    """Nanoseconds a step, where it is no single start in a long capture."""
    row = events_of(events, rank, STARTING)
    often = row is not None and (row.steps_hit is None or row.steps_hit >= OFTEN.value * row.steps)
    return event_cost(job, events, rank, STARTING) if often else None


def _gain(job: Job, rank: int, cost_ns: int) -> Gain:
    if has_device(job, rank):
        return won(job, rank, cost_ns, "a pool is kept")
    return Gain(
        low_ns=round(cost_ns * LEAST.value),
        high_ns=cost_ns,
        method="the host's own time: a pool is kept, and what ran while it was started may have to be waited for",
    )
