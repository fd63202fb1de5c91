"""Saving or logging delays the step.

## What it detects

The rule counts idle time of the device while the training thread saves a checkpoint, writes metrics or prints, per
step, as a share of the step. On a job without a device, the time of the saving and printing calls counts. Python frames
and ranges tell the calls. If torch.load takes a quarter of the time or more, the program writes tensors to files and
reads them again during training. Samples that a dataset loads are input, and do not count.

## Why it costs you

The thread that writes is also the thread that feeds the device. If one rank writes, the others wait for it in the next
collective.

## When it is not a problem

If the capture happens to hold a rare checkpoint, the interval between two checkpoints counts. If fewer than half of the
captured steps save, and Hermes did not count earlier steps, the finding is a preview.

## What to do

Save in the background, and less often. Keep metrics on the device, and let a thread write them every fifty steps. Keep
data in memory if you read it again.

## How to check

Run 50 steps without saving and logging: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Message, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CHECKPOINT, LOADING
from hermes.knowledge.vendor_cures import ASYNC_SAVE
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import Before, HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import Spent
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
    seen_or_counted,
)
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import effect, some_of

OFTEN = Limit(value=0.5, unit="of steps save or log", source="docs/evidence/cpu012.md")
SAVED = "save_ns"
COPY = Limit(value=0.3, unit="of the time of a save remains at most", source="docs/evidence/host-limits.md")
BACK = Limit(value=0.25, unit="of saving and logging is torch.load", source="docs/evidence/host-limits.md")
LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")


@rule("IO006", state="stable", fault=Fault.CHECKPOINT_OR_LOGGING, cases=("IO-27", "IO-16", "IO-17", "IO-24", "MEM-15"))
def saving_blocks(job: Job, events: Rows[HostEvents], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding, of saving or logging inside the loop."""
    found, earlier = seen_or_counted(_in_calls(job, events), _in_saves(job, unprofiled))
    if found is None:
        return
    rank = found.worst.rank
    row = events_of(events, rank, CHECKPOINT)
    back = _reads_back(events, rank)
    said = read_again if back else blocks
    often = earlier or (row is not None and (row.steps_hit or 0) >= OFTEN.value * row.steps)
    yield Loss(
        state="stable" if often else "preview",
        fault=Fault.TENSORS_IN_FILES if back else None,
        message=said(effect=effect(job, found), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, *(Blame(name) for name, _, _ in (row.names[:1] if row else ()))),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, found, before=earlier, saved=earlier and not back),
        confidence=confidence("IO006"),
        evidence=(
            *found.evidence,
            *(counted_fact(job, unprofiled, rank, SAVED) if earlier else ()),
            *(of_events(job, row) if row else ()),
        ),
        replay=("host:checkpoint-or-logging=0",) if has_device(job, rank) else (),
        actions=(_KEEP,) if back else (*ASYNC_SAVE, _RARELY),
    )


def _reads_back(events: Rows[HostEvents], rank: int) -> bool:
    """Whether `torch.load` takes much of the time."""
    loads, every = (events_of(events, rank, kind) for kind in (LOADING, CHECKPOINT))
    if loads is None or every is None or not every.ns:
        return False
    return by_share(BACK, (loads.ns or 0) / every.ns)


def _gain(job: Job, found: Spent, *, before: bool, saved: bool) -> Gain:
    """The gain: all of the loss; of saves, less the time to copy the state before a thread can write it."""
    gain = bound(job, found, LEFT_OUT, before=before)
    return replace(gain, low_ns=round(gain.low_ns * (1 - COPY.value)), basis="bound") if saved else gain


def _in_calls(job: Job, events: Rows[HostEvents]) -> Spent | None:
    """The loss by the calls of the capture."""
    return host_loss(job, SAVING, LIMIT, lambda split: event_cost(job, events, split.rank, CHECKPOINT))


def _in_saves(job: Job, unprofiled: Rows[Before]) -> Spent | None:
    """The loss by the time in `torch.save` over many steps before the capture, which may hold no save, or all."""
    length = counted_step(job, unprofiled, SAVED)
    return host_loss(job, SAVING, LIMIT, lambda split: counted(job, unprofiled, split.rank, SAVED) or None, length)


SAVING = sentence("io006.saving")
LEFT_OUT = sentence("io006.left_out")


@message("io006.blocks")
def blocks(*, effect: Message, on: Message | None = None) -> None:
    """Saving or logging takes time in the loop."""


@message("io006.read_again")
def read_again(*, effect: Message, on: Message | None = None) -> None:
    """The program writes tensors to files, and reads these files again."""


_RARELY = Action(
    title=sentence("io006.rarely"),
    do=sentence("io006.rarely_do"),
    verify=sentence("io006.rarely_verify"),
    risk=sentence("io006.rarely_risk"),
    source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
    fit=OF_TORCH,
    cases=("IO-17",),
)
_KEEP = Action(
    title=sentence("io006.keep"),
    do=sentence("io006.keep_do"),
    verify=sentence("io006.keep_verify"),
    risk=sentence("io006.keep_risk"),
    source="PyTorch documentation of torch.autograd.graph.saved_tensors_hooks",
    fit=OF_TORCH,
    cases=("IO-27", "IO-16", "MEM-15"),
)
