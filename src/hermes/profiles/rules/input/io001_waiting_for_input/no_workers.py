"""Finds loops whose training process makes the batches itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Count, Message, Name, Names, Ranks, Share, message, sentence
from hermes.base.units import whole_number
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import DATA
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.host_measures import Before, SettingValues
from hermes.model.input_measures import Fetches, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import Spent
from hermes.profiles.rules._host import blamed, bound, fact, has_device, only_on, setting
from hermes.profiles.rules._input import (
    READY,
    cores_full,
    crowded_ns,
    fetch_loss,
    fetches_of,
    fetching_waits,
    loop_facts,
    one_long_fetch,
    waits_before,
)
from hermes.profiles.rules._threads import CORES, THREADS
from hermes.profiles.rules.gain_messages import of_host, on_shared_cores
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
CHEAPER = Limit(value=0.5, unit="of the time to make batches is won at least", source="docs/evidence/host-limits.md")
HIDDEN = Limit(
    value=0.75, unit="of the time that free cores can hide is hidden at least", source="docs/evidence/gain-ranges.md"
)  # fmt: skip
MOSTLY = Limit(value=0.5, unit="of fetching", source="docs/evidence/host-limits.md")


@rule(
    "IO001",
    state="stable",
    fault=Fault.DATA_LOADING,
    cases=("IO-02", "IO-03", "IO-04", "IO-11", "IO-15", "IO-18", "IO-19", "IO-20", "IO-21"),
)
def no_workers(
    job: Job,
    fetches: Rows[Fetches],
    rates: Rows[InputRates],
    unprofiled: Rows[Before],
    settings: Rows[SettingValues],
    lines: Rows[CodeLine],
) -> Iterator[Loss]:
    """At most one finding, of a loop without workers."""
    found = fetch_loss(job, fetches, unprofiled, FETCHING, LIMIT, ("main process",))
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    rank = row.rank
    part = _part(row)
    # Workers that wait need no core.
    waits = fetching_waits(job, unprofiled, rank)
    cores = None if waits else whole_number(setting(settings, rank, CORES) or "")
    rate = next(iter(rates.of(rank)), None)
    full = not waits and (cores_full(rate) or bool(crowded_ns(job, unprofiled, rank)))
    alone = _without_workers(job, row, cores, full=full)
    said = idle_meanwhile if has_device(job, rank) else takes
    yield Loss(
        fault=_CAUSES.get(part),
        message=said(share=found.share, on=only_on(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, unprofiled, settings, found, cores, alone=alone is not None),
        confidence=confidence("IO001.one_long_fetch" if one_long_fetch(row) else "IO001"),
        evidence=(*found.evidence, *loop_facts(job, rates, unprofiled, row), *_parts(job, row)),
        replay=("host:data-loading=0",) if has_device(job, rank) else (),
        actions=(_cheaper(lines, rank, alone),) if alone else _actions(rate, part, cores),
    )


def _without_workers(job: Job, row: Fetches, cores: int | None, *, full: bool) -> Message | None:
    """Why workers would gain nothing; None if they may gain something."""
    if cores is not None and cores <= len(job.steps.counts):
        return few_cores(n=cores)
    if full:
        return BUSY_CORES
    if (row.epochs or 0) >= row.steps and row.fetches <= _FEW * (row.epochs or 0):
        return READ_ANEW
    return None


def _gain(
    job: Job, unprofiled: Rows[Before], settings: Rows[SettingValues], found: Spent, cores: int | None, *, alone: bool
) -> Gain:
    rank = found.worst.rank
    gain = bound(job, found, READY, before=waits_before(job, unprofiled, rank))
    if has_device(job, rank):
        return gain
    if alone:
        return replace(gain, low_ns=round(gain.low_ns * CHEAPER.value), method=of_host(when=HALF), basis="bound")
    if not cores:
        return gain
    threads = whole_number(setting(settings, rank, THREADS) or "") or 1
    least, most = (_hidden_ns(found, cores / len(job.steps.counts), one) for one in (threads, 1))
    if least >= found.cost_ns:
        return gain
    low = round(HIDDEN.value * least)
    return replace(gain, low_ns=low, high_ns=most, method=on_shared_cores(method=gain.method), basis="bound")


def _hidden_ns(found: Spent, cores: float, threads: int) -> int:
    """The time of making batches that cores can hide, if the rest of the step occupies a core for each thread.

    The step cannot be shorter than its work, evenly on all cores.
    """
    step_ns = found.cost_ns / found.share
    busy_ns = found.cost_ns + (step_ns - found.cost_ns) * min(threads, cores)
    return max(0, min(found.cost_ns, round(step_ns - busy_ns / cores)))


def _cheaper(lines: Rows[CodeLine], rank: int, why: Message) -> Action:
    """The action if the loop itself must make the batches."""
    inside = [row for row in lines.of(rank) if row.within == DATA and row.place]
    most = max(inside, key=lambda row: (row.own_ns, row.place), default=None)
    return Action(
        title=cheaper(line=most.said if most else None),
        do=cheaper_do(why=why) if most else slices_do(why=why),
        verify=CHEAPER_VERIFY,
        risk=CHEAPER_RISK,
        source="PyTorch documentation of torch.utils.data: memory and start of worker processes",
        whole=True,
    )


_FEW = 16
"""Up to this many batches of a loader, starting its workers takes a notable part of reading the batches."""
_CAUSES = {"reading": Fault.DATA_READING, "processing": Fault.DATA_PROCESSING}


def _part(row: Fetches) -> str:
    """`reading` or `processing`, if that is known to take most of the time."""
    parts = {"reading": row.reading_ns, "processing": row.processing_ns}
    known = (name for name, ns in parts.items() if ns is not None and ns > MOSTLY.value * row.wait_ns)
    return next(known, "")


def _parts(job: Job, row: Fetches) -> Iterator[Evidence]:
    for name, ns in ((READING, row.reading_ns), (PROCESSING, row.processing_ns)):
        if ns is not None:
            yield fact(job, row.rank, name, ns / max(row.wait_ns, 1), "of fetching", 0.5)


def _actions(rate: InputRates | None, part: str, cores: int | None) -> tuple[Action, ...]:
    needed = max(rate.workers_needed or 1, 1) if rate else 1
    # A worker beyond the cores makes no more batches.
    wanted = max(2, needed)
    workers = Action(
        title=WORKERS,
        do=workers_do(workers=str(min(wanted, cores or wanted)), enough=enough(n=needed)),
        verify=WORKERS_VERIFY,
        risk=WORKERS_RISK,
        source="PyTorch performance tuning guide: enable asynchronous data loading",
        fit=Fit(frameworks=("pytorch",)),
        cases=("IO-02",),
    )
    return (*map(_nearer, ("pytorch", "mindspore")), workers) if part == "reading" else (workers,)


_FORMATS = {"pytorch": ("webdataset", "Arrow"), "mindspore": ("MindRecord",)}
"""File formats that hold many samples in one file, by framework."""


def _nearer(framework: str) -> Action:
    return Action(
        title=NEARER,
        do=nearer_do(formats=_FORMATS[framework]),
        verify=NEARER_VERIFY,
        risk=NEARER_RISK,
        source="MindStudio's advisor on slow data loaders: move data to a local cache",
        fit=Fit(frameworks=(framework,)),
        cases=("IO-03", "IO-04"),
    )


FETCHING = sentence("io001.fetching")
READING = sentence("io001.reading")
PROCESSING = sentence("io001.processing")
HALF = sentence("io001.half")
READ_ANEW = sentence("io001.read_anew")
BUSY_CORES = sentence("io001.busy_cores")
WORKERS = sentence("io001.workers")
WORKERS_VERIFY = sentence("io001.workers_verify")
WORKERS_RISK = sentence("io001.workers_risk")
NEARER = sentence("io001.nearer")
NEARER_VERIFY = sentence("io001.nearer_verify")
NEARER_RISK = sentence("io001.nearer_risk")
CHEAPER_VERIFY = sentence("io001.cheaper_verify")
CHEAPER_RISK = sentence("io001.cheaper_risk")


@message("io001.idle_meanwhile")
def idle_meanwhile(*, share: Share, on: Ranks | None = None) -> None:
    """The device has nothing to do while its process makes batches."""


@message("io001.takes")
def takes(*, share: Share, on: Ranks | None = None) -> None:
    """A job without a device makes batches in the training process."""


@message("io001.few_cores")
def few_cores(*, n: Count) -> None:
    """Why workers would not help: no core is free for them."""


@message("io001.workers_do")
def workers_do(*, workers: Name, enough: Message) -> None:
    """How to start worker processes of a loader."""


@message("io001.enough")
def enough(*, n: Count) -> None:
    """How many workers keep up with the step."""


@message("io001.nearer_do")
def nearer_do(*, formats: Names) -> None:
    """How to read from large files that are near."""


@message("io001.cheaper")
def cheaper(*, line: Name | None = None) -> None:
    """The loop itself must make the batches; one function, which may be known, takes most of the time."""


@message("io001.cheaper_do")
def cheaper_do(*, why: Message) -> None:
    """How to make batches cheaper in a known function."""


@message("io001.slices_do")
def slices_do(*, why: Message) -> None:
    """How to make batches cheaper if no function is known."""
