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

from hermes.analyze.host_measures import HostEvents
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import (
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
from hermes.diagnose.rules._input import fetches_of, where_verb
from hermes.knowledge.host_work import CHECKPOINT, DATA, PYTHON, STARTING

LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/cpu012.md")
OFTEN = Threshold(value=0.5, unit="of steps", source="docs/evidence/cpu012.md")
LEAST = Threshold(value=0.5, unit="of it is won at least", source="docs/evidence/cpu012.md")
MOSTLY = Threshold(value=0.5, unit="of what it is a part of", source="docs/evidence/cpu012.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(measures, "starting threads and processes", LIMIT, lambda split: _cost(measures, split.rank))
    row = events_of(measures, found.worst.rank, STARTING) if found else None
    if found is None or row is None:
        return
    yield Finding(
        code="CPU012",
        layer="cpu",
        cause="threads or processes started anew",
        title=f"Starting threads or processes in each step {where_verb(measures, found)}{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found),
        cost_ns=found.cost_ns,
        calls=row.recorded_a_step,
        share=found.share,
        gain=_gain(measures, row.rank, found.cost_ns),
        confidence=round(0.8 * measures.certainty, 2),
        evidence=(*found.evidence, *of_events(measures, row)),
        within=_within(measures, row),
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


def _cost(measures: Measures, rank: int) -> int | None:
    """Nanoseconds a step, where it is no single start in a long capture."""
    row = events_of(measures, rank, STARTING)
    often = row is not None and (row.steps_hit is None or row.steps_hit >= OFTEN.value * row.steps)
    return event_cost(measures, rank, STARTING) if often else None


def _gain(measures: Measures, rank: int, cost_ns: int) -> Gain:
    if has_device(measures, rank):
        return won(measures, rank, cost_ns, "a pool is kept")
    return Gain(
        low_ns=round(cost_ns * LEAST.value),
        high_ns=cost_ns,
        method="the host's own time: a pool is kept, and what ran while it was started may have to be waited for",
    )


def _within(measures: Measures, row: HostEvents) -> str:
    """The finding of which this is the exact cause: where most of it lies in there, and is most of that."""
    part, fetched = dict(row.inside), fetches_of(measures, row.rank)
    saved = events_of(measures, row.rank, CHECKPOINT)
    wholes = (
        ("IO001", part.get(DATA, 0), fetched.wait_ns if fetched and fetched.kind == "main process" else None),
        ("IO006", part.get(CHECKPOINT, 0), saved.ns if saved else None),
    )
    for code, ns, whole in wholes:
        if whole and ns > MOSTLY.value * (row.ns or 0) and ns > MOSTLY.value * whole:
            return code
    return within(measures, row.rank, {DATA, CHECKPOINT, PYTHON})


RULE = Rule(code="CPU012", page=__doc__ or "", find=find, cases=("CPU-38",))
