"""The step checks its own numbers.

## What it detects

The rule finds calls that look for non-finite values (`isfinite`, `isnan`, `isinf`), and the tracebacks that autograd's
anomaly detection keeps for every operator. The rule counts the idle time of the device during these calls, per step. On
a job without a device, the rule counts the host's own time. A function that spends two fifths of its time in such calls
counts as a whole.

A capture of Hermes also records whether anomaly detection is on. Without Python stacks the tracebacks do not show: they
lengthen the operators and the launches between them. The cost is then the time of all these leaves, as a bound, and
only the calls that look for NaN are sure.

## Why it costs you

A check reads a whole tensor, makes a boolean tensor, reduces it and copies the answer to the host, which waits. Anomaly
detection formats a Python stack for each forward operator and checks each gradient.

## When it is not a problem

Checks are useful while you look for the first NaN. A gradient scaler checks all gradients in one fused pass; this does
not count.

## What to do

Switch anomaly detection off. Check only the loss, every hundred steps. Turn checks on only in runs that look for a
fault.

## How to check

Run 50 steps without the checks: the step must shorten by the cost. If the cost is a bound, profile with Python stacks:
they show the tracebacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CHECKS
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import HostEvents, SettingValues
from hermes.model.job import Job, Rows
from hermes.profiles.rules._cost_by_rank import Spent, percents
from hermes.profiles.rules._host import (
    blamed,
    bound,
    event_cost,
    events_of,
    fact,
    has_device,
    host_loss,
    of_events,
    setting,
)
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import effect, some_of

LIMIT = DOUBT
ANOMALY = "torch.anomaly_enabled"


@rule("ENV004", state="stable", fault=Fault.CHECKS_OF_NUMBERS, cases=("CPU-22", "ENV-05"))
def anomaly_checks(job: Job, events: Rows[HostEvents], settings: Rows[SettingValues]) -> Iterator[Loss]:
    """At most one finding, of anomaly detection or checks of numbers."""
    unseen = host_loss(job, MAY_HOLD, LIMIT, lambda split: _unseen(job, events, settings, split.rank))
    found = unseen or host_loss(job, CHECKING, LIMIT, lambda split: event_cost(job, events, split.rank, CHECKS))
    if found is None:
        return
    rank = found.worst.rank
    row, on = events_of(events, rank, CHECKS), _is_on(settings, rank)
    traced = _is_traced(row)
    said = anomaly if traced else checks
    some = some_of(job, found.ranks)
    yield Loss(
        message=is_on(share=percents(found.share), on=some) if unseen else said(effect=effect(job, found), on=some),
        ranks=found.ranks,
        blames=blamed(
            job,
            found,
            *((Blame(f"{ANOMALY}=True", "setting"),) if unseen else ()),
            *(Blame(name) for name, _, _ in (row.names[:2] if row else ())),
        ),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, events, found) if unseen else bound(job, found, NOTHING_CHECKED),
        confidence=confidence("ENV004.setting" if unseen else "ENV004"),
        assumed=unseen is not None,
        evidence=(
            *found.evidence,
            *((fact(job, rank, IS_ON, 1.0, "setting"),) if on else ()),
            *(of_events(job, row) if row else ()),
        ),
        actions=(_ANOMALY, _CHECKS) if traced else (_ANOMALY,) if on else (_CHECKS,),
    )


def _is_on(settings: Rows[SettingValues], rank: int) -> bool:
    return setting(settings, rank, ANOMALY) == "True"


def _is_traced(row: HostEvents | None) -> bool:
    """Whether the capture shows the tracebacks of anomaly detection."""
    names = [name for name, _, _ in row.names] if row else []
    return any("format_stack" in name or "extract_stack" in name or "anomaly" in name for name in names)


def _unseen(job: Job, events: Rows[HostEvents], settings: Rows[SettingValues], rank: int) -> int | None:
    """The time of a rank that may hold tracebacks which the capture does not show; None if there is none to look for.

    With a device, only idle time counts.
    """
    if not _is_on(settings, rank) or _is_traced(events_of(events, rank, CHECKS)):
        return None
    device = has_device(job, rank)
    return job.room_ns(rank, frozenset(leaf for leaf in job.leaves if leaf.part == "idle" or not device))


def _gain(job: Job, events: Rows[HostEvents], found: Spent) -> Gain:
    """From the time of the calls that look for NaN to all that tracebacks may take."""
    sure = 0 if has_device(job, found.worst.rank) else event_cost(job, events, found.worst.rank, CHECKS) or 0
    return Gain(low_ns=min(sure, found.cost_ns), high_ns=found.cost_ns, method=at_most(when=ALL_TRACEBACKS))


CHECKING = sentence("env004.checking")
MAY_HOLD = sentence("env004.may_hold")
IS_ON = sentence("env004.setting")
ALL_TRACEBACKS = sentence("env004.all_tracebacks")
NOTHING_CHECKED = sentence("env004.nothing_checked")


@message("env004.anomaly")
def anomaly(*, effect: Message, on: Message | None = None) -> None:
    """Anomaly detection is switched on."""


@message("env004.checks")
def checks(*, effect: Message, on: Message | None = None) -> None:
    """The program checks numbers for NaN or infinity."""


@message("env004.is_on")
def is_on(*, share: Share, on: Message | None = None) -> None:
    """Anomaly detection is recorded as switched on, and its tracebacks are not."""


_ANOMALY = Action(
    title=sentence("env004.switch_off"),
    do=sentence("env004.switch_off_do"),
    verify=sentence("env004.switch_off_verify"),
    risk=sentence("env004.switch_off_risk"),
    source="PyTorch documentation of autograd: anomaly detection is for debugging only, it slows the program",
    fit=OF_TORCH,
    cases=("CPU-22",),
)
_CHECKS = Action(
    title=sentence("env004.rarely"),
    do=sentence("env004.rarely_do"),
    verify=sentence("env004.rarely_verify"),
    risk=sentence("env004.rarely_risk"),
    source="PyTorch performance tuning guide: disable debugging APIs",
)
