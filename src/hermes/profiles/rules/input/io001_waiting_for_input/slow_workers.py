"""Finds worker processes that make batches slower than the step takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Message, Name, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches, InputQueue, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import Spent
from hermes.profiles.rules._host import BEFORE_IT, blamed, bound, counted, fact, has_device
from hermes.profiles.rules._input import (
    READY,
    WAITED,
    cores_full,
    crowded_ns,
    fetch_loss,
    fetches_of,
    loop_facts,
    one_long_fetch,
    received_ns,
    receives,
    waits_before,
)
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import effect, some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
EMPTY = Limit(
    value=0.5, unit="of samples", source="MindInsight's table of queues: an output queue that is often empty is slow"
)


@rule(
    "IO001",
    state="stable",
    fault=Fault.TOO_FEW_WORKERS,
    cases=(
        "IO-01",
        "IO-03",
        "IO-04",
        "IO-05",
        "IO-07",
        "IO-11",
        "IO-13",
        "IO-15",
        "IO-18",
        "IO-19",
        "IO-20",
        "IO-21",
        "IO-23",
        "IO-25",
        "ENV-08",
        "MEM-13",
    ),
)
def slow_workers(
    job: Job,
    fetches: Rows[Fetches],
    rates: Rows[InputRates],
    queues: Rows[InputQueue],
    unprofiled: Rows[Before],
) -> Iterator[Loss]:
    """At most one finding, of workers that are too slow."""
    found = fetch_loss(job, fetches, unprofiled, WAITING, LIMIT, ("workers", "not told"))
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    rank = row.rank
    rate = next(iter(rates.of(rank)), None)
    slow = _slow_operation(queues, rank)
    apart, crowded = receives(job, unprofiled, rank), crowded_ns(job, unprofiled, rank)
    full = bool(crowded) or cores_full(rate)
    waited = counted(job, unprofiled, rank, WAITED)
    others = bool(crowded) and waited is not None and not by_share(LIMIT, waited / found.worst.window_ns)
    more = AND_RECEIVING if apart else AND_A_CORE if crowded else None
    yield Loss(
        # Any process may occupy a core that the loop needs: workers are slow only if the loop waits for batches, too.
        state="preview" if others else "stable",
        fault=Fault.BATCHES_OF_MANY_TENSORS if apart else Fault.NO_CORE_FOR_WORKERS if full else Fault.TOO_FEW_WORKERS,
        message=waits(
            more=more, effect=effect(job, found), on=some_of(job, found.ranks), full=CORES_TAKEN if full else None
        ),
        ranks=found.ranks,
        blames=blamed(job, found, *((Blame(slow.name),) if slow else ())),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_won(job, found, waited if crowded else None, before=waits_before(job, unprofiled, rank)),
        confidence=confidence("IO001.slow_workers_unsure" if one_long_fetch(row) or crowded else "IO001.slow_workers"),
        evidence=(
            *found.evidence,
            *_received(job, unprofiled, rank, apart),
            *_crowded(job, rank, crowded),
            *loop_facts(job, rates, unprofiled, row),
            *_queue(job, slow),
        ),
        replay=("host:data-loading=0",) if has_device(job, rank) else (),
        actions=(*((_FEWER,) if apart else ()), *(() if full else _more(rate)), _CHEAPER),
    )


def _won(job: Job, found: Spent, waited_ns: int | None, *, before: bool) -> Gain:
    """The gain: all of the loss; if the loop waits for cores, at least its wait for batches."""
    gain = bound(job, found, READY, before=before)
    return gain if waited_ns is None else replace(gain, low_ns=min(gain.low_ns, waited_ns))


def _received(job: Job, unprofiled: Rows[Before], rank: int, apart: bool) -> Iterator[Evidence]:
    if apart:
        yield fact(job, rank, COMPUTED, received_ns(job, unprofiled, rank), "ns",
                   source=BEFORE_IT)  # fmt: skip


def _crowded(job: Job, rank: int, delay_ns: int) -> Iterator[Evidence]:
    if delay_ns:
        yield fact(job, rank, NO_CORE, delay_ns, "ns", source=BEFORE_IT)


def _slow_operation(queues: Rows[InputQueue], rank: int) -> InputQueue | None:
    """The operation nearest to the data whose output queue is often empty, in a pipeline with sampled queues."""
    rows = [one for one in queues.of(rank) if one.queue != "device" and one.capacity]
    return next((one for one in reversed(rows) if (one.empty or 0) > EMPTY.value), None)


def _queue(job: Job, slow: InputQueue | None) -> Iterator[Evidence]:
    if slow is not None:
        what = output_empty(operation=slow.name)
        yield fact(job, slow.rank, what, slow.empty or 0, "of samples", EMPTY.value, slow.source)


def _more(rate: InputRates | None) -> tuple[Action, ...]:
    known = rate is not None and rate.demand and rate.supply
    times = rate.demand / rate.supply if rate and rate.demand and rate.supply else 2.0
    by = times_as_many(times=f"{math.ceil(10 * times) / 10:.1f}") if known else TWICE
    torch = Action(
        title=MORE,
        do=more_torch(workers=by),
        verify=MORE_VERIFY,
        risk=MORE_RISK,
        source="PyTorch documentation of torch.utils.data; MindStudio's advisor on slow data loaders",
        fit=OF_TORCH,
        cases=("IO-01", "IO-05", "IO-07", "IO-19"),
    )
    return (torch, replace(torch, do=MORE_MINDSPORE, fit=Fit(frameworks=("mindspore",)), cases=("IO-19",)))


WAITING = sentence("io001.waiting")
COMPUTED = sentence("io001.computed")
NO_CORE = sentence("io001.no_core")
TWICE = sentence("io001.twice")
MORE = sentence("io001.more")
MORE_MINDSPORE = sentence("io001.more_mindspore")
MORE_VERIFY = sentence("io001.more_verify")
MORE_RISK = sentence("io001.more_risk")
AND_RECEIVING = sentence("io001.and_receiving")
AND_A_CORE = sentence("io001.and_a_core")
CORES_TAKEN = sentence("io001.cores_taken")


@message("io001.waits")
def waits(
    *, more: Message | None = None, effect: Message, on: Message | None = None, full: Message | None = None
) -> None:
    """The loop waits for workers, and perhaps for a core."""


@message("io001.output_empty")
def output_empty(*, operation: Name) -> None:
    """How often the queue behind a slow operation of a pipeline was empty."""


@message("io001.times_as_many")
def times_as_many(*, times: Name) -> None:
    """How many times as many workers would keep up."""


@message("io001.more_torch")
def more_torch(*, workers: Message) -> None:
    """How to give a loader more workers."""


_FEWER = Action(
    title=sentence("io001.fewer"),
    do=sentence("io001.fewer_do"),
    verify=sentence("io001.fewer_verify"),
    risk=sentence("io001.fewer_risk"),
    source="PyTorch documentation of torch.utils.data: collate_fn; case IO-13",
    fit=OF_TORCH,
    cases=("IO-13", "IO-19"),
)
_CHEAPER = Action(
    title=sentence("io001.offline"),
    do=sentence("io001.offline_do"),
    verify=sentence("io001.offline_verify"),
    risk=sentence("io001.offline_risk"),
    source="MindStudio's advisor on slow data loaders; PyTorch documentation of torch.utils.data",
    fit=OF_TORCH,
    cases=("IO-03", "IO-04", "IO-05", "IO-15"),
)
