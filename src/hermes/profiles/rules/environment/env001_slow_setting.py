"""A setting of the environment costs time, on all ranks or on some.

## What it detects

The rule looks at recorded settings that cost time on the host: blocking launches (`ASCEND_LAUNCH_BLOCKING=1`,
`CUDA_LAUNCH_BLOCKING=1`), a disabled task queue, detailed logs, a disabled caching allocator. A setting counts only if
its layer loses time: the device is idle while the host launches work, waits for the device, or allocates memory. The
cost is the whole loss of the layer; one capture cannot tell the setting's share.

A setting or a version that differs between ranks is a preview. The ranks with one value must work longer in a step than
the ranks with another. Work is the median of the window less exposed communication. Settings of the profiler and of the
job do not count.

## Why it costs you

A step pays thousands of times for what a setting adds to every launch. The step ends with its slowest rank, and all
others wait for that rank.

## When it is not a problem

Costly settings are no problem while you debug. Another finding of the report may explain the same loss. Settings that
differ by design, as on hosts of two kinds, are no problem.

## What to do

Set the value that the finding names, for training only. Start all ranks from one image and one environment.

## How to check

Change only this setting and run 50 steps. All ranks record the same value, and their own times are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_settings import HOST_SETTINGS, HostSetting
from hermes.knowledge.host_work import ALLOCATION
from hermes.knowledge.vendor_cures import command
from hermes.knowledge.vendor_traits import QUEUE_SETTING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import AllocatorCalls, Dispatch, SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents, place
from hermes.profiles.rules._dispatch import dispatch_cost, dispatch_of
from hermes.profiles.rules._host import (
    blamed,
    event_cost,
    fact,
    has_device,
    host_loss,
    setting,
)
from hermes.profiles.rules._limits import FREE_OF_STEP as LIMIT
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

SLOWER = Limit(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: ranks that differ by more than 5 % of the longest time",
)
_SOURCES = ("environment", "version")


@rule(
    "ENV001",
    state="stable",
    fault=Fault.LAUNCH_BLOCKING,
    cases=("CPU-11", "CPU-17", "ENV-02", "ENV-05", "MEM-17", "CMP-27", "COM-32", "ENV-06"),
)
def slow_setting(
    job: Job,
    dispatches: Rows[Dispatch],
    events: Rows[AllocatorCalls],
    settings: Rows[SettingValues],
) -> Iterator[Loss]:
    """A finding for each setting that costs time where it is set, and for each that divides slow from fast ranks."""
    for known in HOST_SETTINGS:
        finding = _of_setting(job, dispatches, events, settings, known)
        if finding:
            yield finding
    own = {rank: ns for rank in job.steps.counts if (ns := _own(job, rank)) is not None}
    for row in settings:
        if row.differs and row.source in _SOURCES:
            yield from _of_difference(job, row, own)


def _of_setting(
    job: Job,
    dispatches: Rows[Dispatch],
    events: Rows[AllocatorCalls],
    settings: Rows[SettingValues],
    known: HostSetting,
) -> Loss | None:
    def cost(rank: int) -> int | None:
        return (
            _layer(job, events, rank, known)
            if has_device(job, rank) and _is_set(dispatches, settings, rank, known)
            else None
        )

    job = replace(job, leaves=known.fault.explains)
    found = host_loss(job, adds_to(setting=known.name), LIMIT, lambda split: cost(split.rank))
    if found is None:
        return None
    rank = found.worst.rank
    value = setting(settings, rank, known.name)
    shown = f"{known.name}={value[:40]}" if value is not None else f"{known.name}: {_queue_source(dispatches, rank)}"
    return Loss(
        fault=known.fault,
        message=keeps_waiting(what=known.title, share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found, Blame(shown, "setting")),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=ALL_OF_IT)),
        confidence=confidence(f"ENV001.{known.fault.value}"),
        assumed=known.little,
        evidence=(*found.evidence, fact(job, rank, is_set(setting=shown), 1.0, "setting")),
        actions=(
            Action(
                title=change(setting=known.name),
                do=command(command=known.do),
                verify=CHANGE_VERIFY,
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
    events: Rows[AllocatorCalls],
    rank: int,
    known: HostSetting,
) -> int | None:
    """The loss in the layer that a setting affects."""
    if known.touches == "memory":
        return event_cost(job, events, rank, ALLOCATION)
    if known.touches == "launches that wait":
        return job.room_ns(rank, known.fault.explains)
    return dispatch_cost(job, rank)


def _own(job: Job, rank: int) -> int | None:
    """The time of a rank's typical step without waits for other ranks."""
    split = job.steps.typical(rank)
    if split is None or split.exposed_comm_ns is None:
        return None
    return split.window_ns - split.exposed_comm_ns


def _of_difference(job: Job, row: SettingValues, own: dict[int, int]) -> Iterator[Loss]:
    times = {value: [own[rank] for rank in ranks if rank in own] for value, ranks in row.values}
    known = {value: median(found) for value, found in times.items() if found}
    if len(known) < 2:
        return
    slow, fast = (choose(known, key=lambda value: (known[value], str(value))) for choose in (max, min))
    if min(times[slow]) <= max(times[fast]):
        # Some rank with the other value is as slow, so the setting does not divide slow from fast ranks.
        return
    ranks = tuple(sorted(rank for value, found in row.values for rank in found if value == slow and rank in own))
    worst = max(ranks, key=lambda rank: (own[rank], -rank))
    split, cost = job.steps.typical(worst), int(known[slow] - known[fast])
    if split is None or not split.window_ns or not by_share(SLOWER, cost / split.window_ns):
        return
    shown = f"{row.name}={slow if slow is not None else 'unset'}"
    other = fast if fast is not None else "unset"
    share = cost / split.window_ns
    yield Loss(
        fault=Fault.UNEVEN_ENVIRONMENT,
        state="preview",
        message=divides(
            ranks=str(len(ranks)), every=str(len(own)), value=shown[:80], other=str(other)[:40], share=percents(share)
        ),
        ranks=ranks,
        blames=(Blame(shown, "setting"), *(Blame.of_rank(rank) for rank in ranks[:4])),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method=at_most(when=AS_FAST)),
        confidence=confidence("ENV001.uneven_environment"),
        evidence=(
            fact(job, worst, longer_than(value=str(other)[:40]), round(share, 6), SLOWER.unit, SLOWER.value,
                 source=place(job, split)),
            *(
                fact(job, worst, median_with(value=str(value)[:40]), ns, "ns")
                for value, ns in sorted(known.items(), key=lambda one: (-one[1], str(one[0])))
            ),
        ),
        actions=(
            Action(
                title=ONE_ENVIRONMENT,
                do=one_environment_do(setting=row.name),
                verify=ONE_ENVIRONMENT_VERIFY,
                risk=ONE_ENVIRONMENT_RISK,
                source="comparison of ranks in this capture",
                cases=("ENV-06",),
            ),
        ),
    )  # fmt: skip


ALL_OF_IT = sentence("env001.all_of_it")
CHANGE_VERIFY = sentence("env001.change_verify")
AS_FAST = sentence("env001.as_fast")
ONE_ENVIRONMENT = sentence("env001.one_environment")
ONE_ENVIRONMENT_VERIFY = sentence("env001.one_environment_verify")
ONE_ENVIRONMENT_RISK = sentence("env001.one_environment_risk")


@message("env001.adds_to")
def adds_to(*, setting: Name) -> None:
    """The loss in the layer that a setting affects."""


@message("env001.keeps_waiting")
def keeps_waiting(*, what: Message, share: Share, on: Message | None = None) -> None:
    """A setting costs time where it is set; `what` says how."""


@message("env001.change")
def change(*, setting: Name) -> None:
    """What to do about a setting."""


@message("env001.divides")
def divides(*, ranks: Name, every: Name, value: Name, other: Name, share: Share) -> None:
    """A setting divides slow ranks from fast ones."""


@message("env001.longer_than")
def longer_than(*, value: Name) -> None:
    """How much longer ranks take than ranks with another value."""


@message("env001.median_with")
def median_with(*, value: Name) -> None:
    """The median time, without waits for other ranks, of ranks with a value."""


@message("env001.one_environment_do")
def one_environment_do(*, setting: Name) -> None:
    """How to give all ranks one environment."""


@message("env001.shown")
def is_set(*, setting: Name) -> None:
    """A setting with its value."""
