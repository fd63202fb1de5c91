"""Every Nth step takes longer.

## What it detects

In the log of the steps before the capture, every Nth step is longer than the others. Chance must hardly explain this
(Wilcoxon's rank-sum test, corrected for all distances and beginnings). The cost is the difference between the medians
of long and other steps, spread over all steps. Stack samples in long steps name the function that only long steps call,
or the function in which they spend more time.

## Why it costs you

Suppose that every tenth step does extra work as long as ten steps: this takes half of the time, but a capture of two
steps shows nothing.

## When it is not a problem

Long steps are no problem if the job has just begun, and long steps become rare later. Extra work that is the purpose of
the program, such as playing an environment between updates, is no problem either. Steps that are longer because they
train more, as with networks that are updated in turn, do not count.

## What to do

Evaluate, save and log less often, on a part of the data, or in another process. Keep the loader's workers between
epochs.

## How to check

`hermes watch` shows steps of equal length, or fewer long ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Ns, Share, message, sentence
from hermes.knowledge.advice_conditions import OF_MINDSPORE, OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CHECKPOINT, STARTING
from hermes.knowledge.vendor_cures import ASYNC_SAVE, KEEP_WORKERS
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import LongSteps
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import BEFORE_IT, before_of, fact, mean_steps
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.1, unit="of all time", source="docs/evidence/host-limits.md")
_CAUSES = {STARTING: Fault.WORKERS_STARTED_ANEW, CHECKPOINT: Fault.CHECKPOINT_OR_LOGGING}


@rule("HOT005", state="stable", fault=Fault.LONG_STEPS)
def long_steps(job: Job, rows: Rows[LongSteps], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding of long steps, of the rank that loses most."""
    steps = mean_steps(job)
    found = [row for row in rows if by_share(LIMIT, row.share) and steps.get(row.rank) and not row.trains]
    worst = max(found, key=lambda row: (row.share, -row.rank), default=None)
    if worst is None:
        return
    before = before_of(unprofiled, worst.rank)
    # No profiler makes a step shorter: if steps before the capture took longer, something delayed them, too.
    cost = round(worst.share * min(steps[worst.rank], before.step_ns if before else steps[worst.rank]))
    ranks = tuple(sorted(row.rank for row in found))
    yield Loss(
        message=every(
            period=str(worst.period), extra=worst.extra_ns, line=worst.line or None, share=percents(worst.share),
            on=some_of(job, ranks),
        ),
        ranks=ranks,
        blames=(Blame(worst.line, "line"),) if worst.line else (),
        fault=_CAUSES.get(worst.why),
        cost_ns=cost,
        share=worst.share,
        gain=Gain(low_ns=cost // 2, high_ns=cost, method=at_most(when=HALF_AS_OFTEN), before=True),
        confidence=confidence("HOT005.line" if worst.line else "HOT005"),
        evidence=(
            fact(job, worst.rank, LONGER, worst.share, "of all time", LIMIT.value, source=BEFORE_IT),
            fact(job, worst.rank, APART, worst.period, "steps", source=BEFORE_IT),
            fact(job, worst.rank, SEEN, worst.count, f"of {worst.steps} steps", source=BEFORE_IT),
            fact(job, worst.rank, BEYOND, worst.extra_ns, "ns", source=BEFORE_IT),
            fact(job, worst.rank, MEDIAN, worst.usual_ns, "ns", source=BEFORE_IT),
        ),
        lines=tuple(line for line in (worst.line, worst.called) if line),
        actions=_actions(worst),
    )  # fmt: skip


def _actions(row: LongSteps) -> tuple[Action, ...]:
    if row.why == STARTING:
        return (KEEP_WORKERS,)
    if row.why == CHECKPOINT:
        return ASYNC_SAVE
    return _RARELY if row.line else (_LOOK,)


HALF_AS_OFTEN = sentence("hot005.half_as_often")
LONGER = sentence("hot005.longer")
APART = sentence("hot005.apart")
SEEN = sentence("hot005.seen")
BEYOND = sentence("hot005.beyond")
MEDIAN = sentence("hot005.median")


@message("hot005.every")
def every(*, period: Name, extra: Ns, line: Name | None = None, share: Share, on: Message | None = None) -> None:
    """Steps are longer at a regular period, and the function that takes the time may be known."""


def _rarely(do: Message, fit: Fit) -> Action:
    return Action(
        title=RARELY,
        do=do,
        verify=RARELY_VERIFY,
        risk=RARELY_RISK,
        source="the log of steps itself",
        fit=fit,
        whole=True,
    )


RARELY = sentence("hot005.rarely")
RARELY_VERIFY = sentence("hot005.rarely_verify")
RARELY_RISK = sentence("hot005.rarely_risk")
_RARELY = (
    _rarely(sentence("hot005.rarely_torch"), OF_TORCH),
    _rarely(sentence("hot005.rarely_mindspore"), OF_MINDSPORE),
)
_LOOK = Action(
    title=sentence("hot005.look"),
    do=sentence("hot005.look_do"),
    verify=sentence("hot005.look_verify"),
    risk=sentence("hot005.look_risk"),
    source="the log of steps itself",
    whole=True,
)
