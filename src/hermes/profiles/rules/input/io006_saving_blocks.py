"""Saving or logging holds the step up.

## What it detects

Time in which the device has nothing to do while the training thread saves a checkpoint, writes metrics or prints, per
step, as a share of the step. On a job without a device it is the time of these calls. They are known by their Python
frames and ranges. Where torch.load takes a quarter of it or more, tensors are written to files and read again within
training. Samples that a dataset loads are input, and do not count.

## Why it costs you

The thread that writes is the one that feeds the device. When one rank writes, the others wait for it in the next
collective.

## When it is not a problem

When the capture happens to hold one of few checkpoints: the interval between two of them is what counts. Where fewer
than half of its steps save, and no steps before it were counted, the finding is a preview.

## What to do

Save in the background and less often; keep metrics on the device, and let a thread write them every fifty steps. Keep
in memory what is read again.

## How to check

Run 50 steps without saving and logging: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import ASYNC_SAVE
from hermes.knowledge.host_work import CHECKPOINT, LOADING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import Before, HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._component import Spent
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
    on,
    seen_or_counted,
    within,
)
from hermes.profiles.rules._input import where_verb
from hermes.profiles.rules.rule import by_share, rule

OFTEN = Limit(value=0.5, unit="of steps save or log", source="docs/evidence/cpu012.md")
SAVED = "save_ns"
_WHAT = "saving and logging"
COPY = Limit(value=0.3, unit="of a save is left at most", source="docs/evidence/host-limits.md")
BACK = Limit(value=0.25, unit="of saving and logging is torch.load", source="docs/evidence/host-limits.md")
LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")


@rule("IO006", state="stable", fault=Fault.CHECKPOINT_OR_LOGGING, cases=("IO-27", "IO-16", "IO-17", "IO-24", "MEM-15"))
def saving_blocks(job: Job, free: Rows[StepFree], events: Rows[HostEvents], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding."""
    found, earlier = seen_or_counted(_in_calls(job, events), _in_saves(job, unprofiled))
    if found is None:
        return
    rank = found.worst.rank
    row = events_of(events, rank, CHECKPOINT)
    back = _reads_back(events, rank)
    often = earlier or (row is not None and (row.steps_hit or 0) >= OFTEN.value * row.steps)
    yield Loss(
        state="stable" if often else "preview",
        fault=Fault.TENSORS_IN_FILES if back else None,
        message=f"{_TITLES[back]} {where_verb(job, found)}{on(job, found)}",
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
        apart=not within(free, rank, {CHECKPOINT}),
        actions=(_KEEP,) if back else (ASYNC_SAVE, _RARELY),
    )


_TITLES = {False: "Saving or logging", True: "Writing tensors to files and reading them again"}
_RARELY = Action(
    title="Write metrics rarely and from another thread",
    do="values.append(loss.detach()); every 50 steps hand torch.stack(values).cpu() to a thread that writes.",
    verify="No writer or printing call is left in most steps.",
    risk="The last values are lost when the job dies.",
    source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
)
_KEEP = Action(
    title="Keep in memory what is read again",
    do="Leave out the hooks that write activations to files; where memory has no room for them, "
    "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) computes them again, and "
    "torch.autograd.graph.save_on_cpu(pin_memory=True) keeps them on the host.",
    verify="Neither torch.save nor torch.load is left in a step.",
    risk="Memory for what is kept.",
    source="PyTorch documentation of torch.autograd.graph.saved_tensors_hooks",
)


def _reads_back(events: Rows[HostEvents], rank: int) -> bool:
    """Whether much of it is torch.load."""
    loads, every = (events_of(events, rank, kind) for kind in (LOADING, CHECKPOINT))
    if loads is None or every is None or not every.ns:
        return False
    return by_share(BACK, (loads.ns or 0) / every.ns)


def _gain(job: Job, found: Spent, *, before: bool, saved: bool) -> Gain:
    """All of it, and of saves less what copying the state takes before a thread can write it."""
    gain = bound(job, found, "all of it runs in the background, or is left out", before=before)
    return replace(gain, low_ns=round(gain.low_ns * (1 - COPY.value)), basis="bound") if saved else gain


def _in_calls(job: Job, events: Rows[HostEvents]) -> Spent | None:
    """By the calls of the capture."""
    return host_loss(job, _WHAT, LIMIT, lambda split: event_cost(job, events, split.rank, CHECKPOINT))


def _in_saves(job: Job, unprofiled: Rows[Before]) -> Spent | None:
    """By the time in torch.save in many steps before the capture, which may hold none, or all."""
    length = counted_step(job, unprofiled, SAVED)
    return host_loss(job, _WHAT, LIMIT, lambda split: counted(job, unprofiled, split.rank, SAVED) or None, length)
