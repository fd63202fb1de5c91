"""A setting slows the host, and the host bounds the step.

## What it detects

Settings that the capture records and that cost time on the host: launches that wait (`ASCEND_LAUNCH_BLOCKING=1`,
`CUDA_LAUNCH_BLOCKING=1`), a task queue that is off, logs in detail, a caching allocator that is off. Each counts only
with a loss in the layer that it touches: free time while the host hands over work, waits for the device, or asks for
memory. Its cost is that loss, of which the setting's own part is not known.

## Why it costs you

What a setting adds to every launch is paid thousands of times a step.

## When it is not a problem

While you debug, and when the loss has another cause that is found here too.

## What to do

Set the value that is named, for training only.

## How to check

Run 50 steps with the setting changed and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_settings import HOST_SETTINGS, HostSetting
from hermes.knowledge.host_work import ALLOCATION, SYNCHRONISATION
from hermes.knowledge.vendors import QUEUE_SETTING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import AllocatorCalls, Dispatch, SettingValues, StepHost
from hermes.model.job import Job, Rows
from hermes.model.measures import HostStall
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._dispatch import dispatch_cost, dispatch_of
from hermes.profiles.rules._host import (
    blamed,
    event_cost,
    fact,
    has_device,
    host_loss,
    larger,
    on,
    setting,
    stall_cost,
)
from hermes.profiles.rules._limits import FREE_OF_STEP as LIMIT
from hermes.profiles.rules.rule import rule


@rule(
    "ENV001",
    state="stable",
    fault=Fault.LAUNCH_BLOCKING,
    cases=("CPU-11", "CPU-17", "ENV-02", "ENV-05", "MEM-17", "CMP-27", "COM-32"),
)
def slow_setting(
    job: Job,
    stalls: Rows[HostStall],
    free: Rows[StepFree],
    host_steps: Rows[StepHost],
    dispatches: Rows[Dispatch],
    events: Rows[AllocatorCalls],
    settings: Rows[SettingValues],
) -> Iterator[Loss]:
    """One finding for each setting that costs where it stands."""
    for known in HOST_SETTINGS:
        finding = _of_setting(job, stalls, free, host_steps, dispatches, events, settings, known)
        if finding:
            yield finding


def _of_setting(
    job: Job,
    stalls: Rows[HostStall],
    free: Rows[StepFree],
    host_steps: Rows[StepHost],
    dispatches: Rows[Dispatch],
    events: Rows[AllocatorCalls],
    settings: Rows[SettingValues],
    known: HostSetting,
) -> Loss | None:
    def cost(rank: int) -> int | None:
        return (
            _layer(job, stalls, free, host_steps, events, rank, known)
            if has_device(job, rank) and _is_set(dispatches, settings, rank, known)
            else None
        )

    found = host_loss(job, f"loss that {known.name} can add to", LIMIT, lambda split: cost(split.rank))
    if found is None:
        return None
    rank = found.worst.rank
    value = setting(settings, rank, known.name)
    shown = f"{known.name}={value[:40]}" if value is not None else f"{known.name}: {_queue_source(dispatches, rank)}"
    return Loss(
        fault=known.fault,
        message=f"{known.title}, and the host keeps the device waiting for {found.share:.0%} of the step"
        f"{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, Blame(shown, "setting")),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: all of that loss comes from the setting"),
        confidence=confidence(f"ENV001.{known.fault.value}"),
        assumed=known.little,
        evidence=(*found.evidence, fact(job, rank, shown, 1.0, "setting")),
        actions=(
            Action(
                title=f"Change {known.name}",
                do=known.do,
                verify="Free time per step falls with this change alone.",
                risk=known.risk,
                source=known.source,
            ),
        ),
    )


def _is_set(dispatches: Rows[Dispatch], settings: Rows[SettingValues], rank: int, known: HostSetting) -> bool:
    value = setting(settings, rank, known.name)
    if value is None and known.name == QUEUE_SETTING:
        row = dispatch_of(dispatches, rank)
        return row is not None and row.task_queue == "off"
    return value is not None and known.slow(value.strip())


def _queue_source(dispatches: Rows[Dispatch], rank: int) -> str:
    row = dispatch_of(dispatches, rank)
    return row.task_queue_source if row else ""


def _layer(
    job: Job,
    stalls: Rows[HostStall],
    free: Rows[StepFree],
    host_steps: Rows[StepHost],
    events: Rows[AllocatorCalls],
    rank: int,
    known: HostSetting,
) -> int | None:
    """The loss of the layer that the setting touches."""
    if known.touches == "memory":
        return event_cost(job, events, rank, ALLOCATION)
    if known.touches == "launches that wait":
        return larger(dispatch_cost(free, host_steps, rank), stall_cost(job, stalls, rank, SYNCHRONISATION))
    return dispatch_cost(free, host_steps, rank)
