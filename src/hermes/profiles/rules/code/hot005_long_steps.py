"""Steps take longer at an even distance.

## What it detects

In the log of the steps before the capture, steps at an even distance that are longer than the others: a row of them
whose ranks by length hardly come by chance (Wilcoxon's sum of ranks, all distances and beginnings counted). The cost is
by how much their median is beyond that of the others, over all steps. Looks at the stack in such a step name the
function that only they call, else the one that they spend more in.

## Why it costs you

What is done in each tenth step and takes ten steps takes half of all time, and a capture of two steps shows nothing of
it.

## When it is not a problem

When the job has just begun, and such steps become rare later. When it is the point of the program, as playing an
environment between updates is. Steps that are longer because more is trained in them, as with networks that are updated
by turns, do not count.

## What to do

Evaluate, save and log more rarely, on a part of the data, or in another process. Keep the workers of loaders over
epochs.

## How to check

`hermes watch` shows steps of even length, or long ones farther apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.units import duration
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import ASYNC_SAVE, KEEP_WORKERS
from hermes.knowledge.host_work import CHECKPOINT, STARTING
from hermes.model.code_measures import LongSteps
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._code import mean_steps
from hermes.profiles.rules._host import BEFORE_IT, before_of, fact, on_ranks
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.1, unit="of all time", source="docs/evidence/host-limits.md")
_CAUSES = {STARTING: Fault.WORKERS_STARTED_ANEW, CHECKPOINT: Fault.CHECKPOINT_OR_LOGGING}


@rule("HOT005", state="stable", fault=Fault.LONG_STEPS)
def long_steps(job: Job, rows: Rows[LongSteps], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding, of the rank that loses most."""
    steps = mean_steps(job)
    found = [row for row in rows if by_share(LIMIT, row.share) and steps.get(row.rank) and not row.trains]
    worst = max(found, key=lambda row: (row.share, -row.rank), default=None)
    if worst is None:
        return
    before = before_of(unprofiled, worst.rank)
    # No profiler makes a step shorter: those before that took longer were held up, too.
    cost = round(worst.share * min(steps[worst.rank], before.step_ns if before else steps[worst.rank]))
    ranks = tuple(sorted(row.rank for row in found))
    where = f", in {worst.line}" if worst.line else ""
    yield Loss(
        message=f"Every {worst.period} steps one takes {duration(worst.extra_ns)} more{where}: "
        f"{worst.share:.0%} of all time{on_ranks(job, ranks)}",
        ranks=ranks,
        blames=(Blame(worst.line, "line"),) if worst.line else (),
        fault=_CAUSES.get(worst.why),
        cost_ns=cost,
        share=worst.share,
        gain=Gain(low_ns=cost // 2, high_ns=cost, method="bound: done half as often, or not at all", before=True),
        confidence=confidence("HOT005.line" if worst.line else "HOT005"),
        evidence=(
            fact(job, worst.rank, "longer than the others", worst.share, "of all time", LIMIT.value, source=BEFORE_IT),
            fact(job, worst.rank, "longer steps, and how far apart", worst.period, "steps", source=BEFORE_IT),
            fact(job, worst.rank, "of them seen", worst.count, f"of {worst.steps} steps", source=BEFORE_IT),
            fact(job, worst.rank, "a longer step beyond the others", worst.extra_ns, "ns", source=BEFORE_IT),
            fact(job, worst.rank, "median of the others", worst.usual_ns, "ns", source=BEFORE_IT),
        ),
        lines=tuple(line for line in (worst.line, worst.called) if line),
        actions=(_action(worst),),
    )


def _action(row: LongSteps) -> Action:
    if row.why == STARTING:
        return KEEP_WORKERS
    if row.why == CHECKPOINT:
        return ASYNC_SAVE
    return _RARELY if row.line else _LOOK


_RARELY = Action(
    title="Do it more rarely, or less of it",
    do="An evaluation: each so many hundred steps or once an epoch, on a part of the data in between, in large batches "
    "under torch.no_grad(). What writes: rarely, and from another thread. What starts an epoch: once for all epochs.",
    verify="Longer steps are farther apart, or no longer than others.",
    risk="What is seen more rarely is seen later.",
    source="the log of steps itself",
    whole=True,
)
_LOOK = Action(
    title="Capture one of the longer steps",
    do="hermes profile begins behind the next one, and looks at which lines it spends its time.",
    verify="The report names the function.",
    risk="None.",
    source="the log of steps itself",
    whole=True,
)
