"""The profiler itself slows the host.

## What it detects

The rule finds a capture with Python stacks or modules in which the device waits while the host runs operators and
Python. One capture cannot tell how much of this wait the profiler adds. The cost is the upper limit.

## Why it costs you

The profiler records stacks and memory for every operator, on the thread that launches. A job with such a profiler is
slower than necessary, and its captures overstate every loss of the host.

## When it is not a problem

If you capture a few steps of a job that otherwise runs without a profiler, only the captured host times are too high.

## What to do

Capture again at a low level, without stacks and memory, and act on that capture. Give the profiler a schedule that ends
the recording.

## How to check

A step of the new capture is as long as a step without any profiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import LEAN_CAPTURE
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._dispatch import dispatch_cost
from hermes.profiles.rules._host import blamed, fact, host_loss, setting, window_ns
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.evidence_messages import HANDING_OVER
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

_DEAR = ("with_stack", "with_modules", "profile_memory")
_ON = frozenset({"1", "true", "True"})


@rule("ENV002", state="preview", fault=Fault.EXPENSIVE_PROFILING, cases=("ENV-04",))
def profiler_overhead(job: Job, settings: Rows[SettingValues]) -> Iterator[Loss]:
    """At most one finding, of profiler options that slow the captured step."""
    found = host_loss(
        job,
        HANDING_OVER,
        LIMIT,
        lambda split: dispatch_cost(job, split.rank) if _dear(settings, split.rank) else None,
        window_ns,
    )
    if found is None:
        return
    rank = found.worst.rank
    options = _dear(settings, rank)
    yield Loss(
        message=records(options=", ".join(options), share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, *(Blame(option, "setting") for option in options)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=0, method=NOT_KNOWN),
        confidence=confidence("ENV002"),
        assumed=True,
        evidence=(*found.evidence, *(fact(job, rank, is_on(option=option), 1.0, "setting") for option in options)),
        actions=LEAN_CAPTURE,
    )


def _dear(settings: Rows[SettingValues], rank: int) -> tuple[str, ...]:
    """The options that cost time in every operator; empty without Python frames, which cost most."""
    found = tuple(name for name in _DEAR if setting(settings, rank, name) in _ON)
    return found if set(found) - {"profile_memory"} else ()


NOT_KNOWN = sentence("env002.not_known")


@message("env002.records")
def records(*, options: Name, share: Share, on: Message | None = None) -> None:
    """The profiler records data that costs time in every operator."""


@message("env002.is_on")
def is_on(*, option: Name) -> None:
    """A costly option of the profiler."""
