"""The step checks its own numbers.

## What it detects

The rule finds calls that look for non-finite values (`isfinite`, `isnan`, `isinf`), and the tracebacks that autograd's
anomaly detection keeps for every operator. The rule counts the idle time of the device during these calls, per step. On
a job without a device, the rule counts the host's own time. A function that spends two fifths of its time in such calls
counts as a whole.

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

Run 50 steps without the checks: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CHECKS
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.profiles.rules._host import blamed, bound, event_cost, events_of, host_loss, of_events
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import effect, some_of

LIMIT = DOUBT


@rule("ENV004", state="stable", fault=Fault.CHECKS_OF_NUMBERS, cases=("CPU-22", "ENV-05"))
def anomaly_checks(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding, of anomaly detection or checks of numbers."""
    found = host_loss(job, CHECKING, LIMIT, lambda split: event_cost(job, events, split.rank, CHECKS))
    row = events_of(events, found.worst.rank, CHECKS) if found else None
    if found is None or row is None:
        return
    traced = any("format_stack" in name or "extract_stack" in name or "anomaly" in name for name, _, _ in row.names)
    said = anomaly if traced else checks
    yield Loss(
        message=said(effect=effect(job, found), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, *(Blame(name) for name, _, _ in row.names[:2])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, NOTHING_CHECKED),
        confidence=confidence("ENV004"),
        evidence=(*found.evidence, *of_events(job, row)),
        actions=(_ANOMALY, _CHECKS) if traced else (_CHECKS,),
    )


CHECKING = sentence("env004.checking")
NOTHING_CHECKED = sentence("env004.nothing_checked")


@message("env004.anomaly")
def anomaly(*, effect: Message, on: Message | None = None) -> None:
    """Anomaly detection is switched on."""


@message("env004.checks")
def checks(*, effect: Message, on: Message | None = None) -> None:
    """The program checks numbers for NaN or infinity."""


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
