"""Finds loaders that start their workers again and again."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import KEEP_WORKERS
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Loss
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules._cost_by_rank import Spent, percents
from hermes.profiles.rules._host import (
    BEFORE_IT,
    before_of,
    blamed,
    bound,
    counted,
    counted_step,
    fact,
    host_loss,
    seen_or_counted,
)
from hermes.profiles.rules._input import WAITED, fetches_of, first_waits_ns, starting
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("IO001", state="stable", fault=Fault.WORKERS_STARTED_ANEW, cases=("IO-06", "IO-24"))
def workers_anew(job: Job, fetches: Rows[Fetches], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding, of workers that are started again."""
    # Work left out of the steps before, such as evaluations, starts iterators of its own.
    before = _counted(job, unprofiled) or _before(job, fetches, unprofiled)
    found, earlier = seen_or_counted(_in_capture(job, fetches), before)
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=loader_anew(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, STAY, before=earlier),
        confidence=confidence("IO001.workers_anew"),
        state="stable" if before is not None or (row.epochs or 0) >= row.steps else "preview",
        evidence=(
            *found.evidence,
            fact(job, row.rank, ITERATORS, (row.epochs or 0) / max(1, row.steps), "iterators"),
            fact(job, row.rank, MAKING, (row.epoch_ns or 0) / max(1, row.steps), "ns a step"),
            fact(job, row.rank, FIRST_BATCHES, first_waits_ns(row) / max(1, row.steps), "ns a step"),
            *_starts(job, unprofiled, row.rank),
        ),
        actions=(KEEP_WORKERS,),
    )


def _in_capture(job: Job, fetches: Rows[Fetches]) -> Spent | None:
    def cost(split: StepSplit) -> int | None:
        row = fetches_of(fetches, split.rank)
        if row is None or row.epoch_ns is None:
            return None
        return (row.epoch_ns + first_waits_ns(row)) // max(1, row.steps)

    return host_loss(job, STARTING_ITERATORS, LIMIT, cost)


def _before(job: Job, fetches: Rows[Fetches], unprofiled: Rows[Before]) -> Spent | None:
    def cost(split: StepSplit) -> int | None:
        row, waited = fetches_of(fetches, split.rank), counted(job, unprofiled, split.rank, WAITED)
        return None if row is None or waited is None else round(waited * starting(row))

    return host_loss(job, STARTING_ITERATORS, LIMIT, cost, counted_step(job, unprofiled, WAITED))


def _counted(job: Job, unprofiled: Rows[Before]) -> Spent | None:
    """The loss by the monitor's count of starts in steps before the capture, without the job's first start."""

    def cost(split: StepSplit) -> int | None:
        return counted(job, unprofiled, split.rank, "start_ns")

    return host_loss(job, STARTING_ITERATORS, LIMIT, cost, counted_step(job, unprofiled, "start_ns"))


def _starts(job: Job, unprofiled: Rows[Before], rank: int) -> Iterator[Evidence]:
    row = before_of(unprofiled, rank)
    if row is not None and row.starts:
        yield fact(job, rank, STARTS, row.starts, "starts", source=BEFORE_IT)


STARTING_ITERATORS = sentence("io001.starting_iterators")
STAY = sentence("io001.stay")
ITERATORS = sentence("io001.iterators")
MAKING = sentence("io001.making")
FIRST_BATCHES = sentence("io001.first_batches")
STARTS = sentence("io001.starts")


@message("io001.loader_anew")
def loader_anew(*, share: Share, on: Message | None = None) -> None:
    """A loader starts its workers again and again."""
