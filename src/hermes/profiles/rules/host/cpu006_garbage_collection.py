"""Python's garbage collector stops the step.

## What it detects

The rule counts idle time of the device while the garbage collector runs, per step, as a share of the step. The profile
must record collections: on Ascend with `gc_detect_threshold`. Without recorded collections their time is in the leaf
*not recorded* of the tree. On a job without a device, the rule takes what Hermes' monitor counted before the capture.
Full collections come only every so many steps, and a short capture may have none, or too many.

## Why it costs you

A full collection visits every tracked object and holds the interpreter. Ranks collect at different steps, and all other
ranks wait in the next collective.

## When it is not a problem

A collection in one of hundreds of steps is no problem. The cost is per step of the capture, and a short capture may
overstate it.

## What to do

If your loop calls `gc.collect`, delete the call. Otherwise freeze the objects of the start-up, turn automatic
collection off, and collect at the same step on all ranks.

## How to check

Run 50 steps with `gc.disable()`: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Ranks, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import COLLECT, GC
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import NamedLine
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import Before, HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._host import (
    blamed,
    bound,
    counted,
    counted_fact,
    counted_step,
    event_cost,
    events_of,
    has_device,
    host_loss,
    of_events,
    only_on,
)
from hermes.profiles.rules.rule import by_share, rule

ASKED = Limit(value=0.5, unit="of it is in calls of gc.collect", source="docs/evidence/host-limits.md")
LIMIT = Limit(value=0.01, unit="of step", source="docs/evidence/host-limits.md")


@rule("CPU006", state="stable", fault=Fault.GARBAGE_COLLECTION, cases=("CPU-30", "CPU-31", "CPU-33", "CPU-46"))
def garbage_collection(
    job: Job,
    events: Rows[HostEvents],
    unprofiled: Rows[Before],
    named: Rows[NamedLine],
) -> Iterator[Loss]:
    """At most one finding, of Python's garbage collection."""
    length = counted_step(job, unprofiled, "gc_ns")
    found = host_loss(job, COLLECTING, LIMIT, lambda split: _cost(job, events, unprofiled, split.rank), length)
    if found is None:
        return
    rank = found.worst.rank
    row = events_of(events, rank, GC)
    asked = row is not None and by_share(ASKED, _asked_ns(row) / max(row.ns or 0, 1))
    lines = tuple(one.line for one in named if (one.rank, one.kind, one.name) == (rank, "event", GC))[:1]
    said = idle_meanwhile if has_device(job, rank) else takes
    yield Loss(
        message=said(share=found.share, on=only_on(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, NO_COLLECTION, before=counted(job, unprofiled, rank, "gc_ns") is not None),
        confidence=confidence("CPU006"),
        evidence=(
            *found.evidence,
            *counted_fact(job, unprofiled, rank, "gc_ns"),
            *(of_events(job, row) if row else ()),
        ),
        replay=("host:garbage-collection=0",) if has_device(job, rank) else (),
        actions=(_delete(lines),) if asked else (_BY_MEGATRON, _AT_CHOSEN_STEPS),
    )


def _asked_ns(row: HostEvents) -> int:
    return sum(ns for name, _, ns in row.names if name == COLLECT)


def _delete(lines: tuple[str, ...]) -> Action:
    """The action for garbage collections that the program itself calls."""
    return Action(
        title=delete(place=lines[0].partition(" ")[0] if lines else None),
        do=DELETE_DO,
        verify=DELETE_VERIFY,
        risk=RISK,
        source="Python documentation of gc",
        whole=True,
        cases=("CPU-46",),
    )


def _cost(job: Job, events: Rows[HostEvents], unprofiled: Rows[Before], rank: int) -> int | None:
    """Nanoseconds a step in collections; without a device, of steps before the capture if counted."""
    ns = counted(job, unprofiled, rank, "gc_ns")
    return event_cost(job, events, rank, GC) if ns is None else ns


COLLECTING = sentence("cpu006.collecting")
NO_COLLECTION = sentence("cpu006.no_collection")
CHOOSE = sentence("cpu006.choose")
CHOOSE_DO = sentence("cpu006.choose_do")
MEGATRON_DO = sentence("cpu006.megatron_do")
VERIFY = sentence("cpu006.verify")
RISK = sentence("cpu006.risk")
DELETE_DO = sentence("cpu006.delete_do")
DELETE_VERIFY = sentence("cpu006.delete_verify")


@message("cpu006.idle_meanwhile")
def idle_meanwhile(*, share: Share, on: Ranks | None = None) -> None:
    """The device has nothing to do while Python collects garbage."""


@message("cpu006.takes")
def takes(*, share: Share, on: Ranks | None = None) -> None:
    """A job without a device collects garbage."""


@message("cpu006.delete")
def delete(*, place: Name | None = None) -> None:
    """The program calls the garbage collector itself, at a line that may be known."""


_AT_CHOSEN_STEPS = Action(
    title=CHOOSE,
    do=CHOOSE_DO,
    verify=VERIFY,
    risk=RISK,
    source="Python documentation of gc: freeze, disable; msprof-analyze's advisor on collections",
    cases=("CPU-30", "CPU-33", "CPU-46"),
)
_BY_MEGATRON = Action(
    title=CHOOSE,
    do=MEGATRON_DO,
    verify=VERIFY,
    risk=RISK,
    source="Megatron-LM, --manual-gc",
    fit=Fit(libraries=("megatron", "mindspeed")),
    cases=("CPU-31",),
)
