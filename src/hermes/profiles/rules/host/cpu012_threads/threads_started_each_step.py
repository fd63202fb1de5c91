"""Finds threads or processes that the program starts in each step."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, message, sentence
from hermes.knowledge.advice_conditions import OF_MINDSPORE, OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import STARTING
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._host import (
    blamed,
    event_cost,
    events_of,
    has_device,
    host_loss,
    of_events,
    won,
)
from hermes.profiles.rules.gain_messages import of_host
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import effect, some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/cpu012.md")
OFTEN = Limit(value=0.5, unit="of steps", source="docs/evidence/cpu012.md")
LEAST = Limit(value=0.5, unit="of the time is won at least", source="docs/evidence/cpu012.md")


@rule("CPU012", state="preview", fault=Fault.THREADS_STARTED_ANEW, cases=("CPU-38",))
def starts_each_step(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding, of threads or processes started in each step."""
    found = host_loss(job, STARTS, LIMIT, lambda split: _cost(job, events, split.rank))
    row = events_of(events, found.worst.rank, STARTING) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=starting_anew(effect=effect(job, found), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, row.rank, found.cost_ns),
        confidence=confidence("CPU012"),
        evidence=(*found.evidence, *of_events(job, row)),
        actions=_KEEP,
    )


def _cost(job: Job, events: Rows[HostEvents], rank: int) -> int | None:
    """Nanoseconds a step; None for a single start in a long capture."""
    row = events_of(events, rank, STARTING)
    often = row is not None and (row.steps_hit is None or row.steps_hit >= OFTEN.value * row.steps)
    return event_cost(job, events, rank, STARTING) if often else None


def _gain(job: Job, rank: int, cost_ns: int) -> Gain:
    if has_device(job, rank):
        return won(job, rank, cost_ns, KEPT)
    return Gain(
        low_ns=round(cost_ns * LEAST.value),
        high_ns=cost_ns,
        method=of_host(when=KEPT_AND_WAITED),
    )


STARTS = sentence("cpu012.starts")
KEPT = sentence("cpu012.kept")
KEPT_AND_WAITED = sentence("cpu012.kept_and_waited")


@message("cpu012.starting_anew")
def starting_anew(*, effect: Message, on: Message | None = None) -> None:
    """Threads or processes are started in each step."""


def _keep(do: Message, risk: Message, fit: Fit) -> Action:
    return Action(
        title=KEEP,
        do=do,
        verify=KEEP_VERIFY,
        risk=risk,
        source="Python documentation: concurrent.futures, ThreadPoolExecutor reuses idle threads; case CPU-38",
        fit=fit,
        cases=("CPU-38",),
    )


KEEP = sentence("cpu012.keep")
KEEP_VERIFY = sentence("cpu012.keep_verify")
_KEEP = (
    _keep(sentence("cpu012.keep_torch"), sentence("cpu012.keep_torch_risk"), OF_TORCH),
    _keep(sentence("cpu012.keep_mindspore"), sentence("cpu012.keep_risk"), OF_MINDSPORE),
)
