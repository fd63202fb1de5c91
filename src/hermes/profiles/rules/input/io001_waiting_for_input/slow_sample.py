"""Finds slow samples that hold back batches which are ready."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import blamed, bound, fact, has_device, host_loss
from hermes.profiles.rules._input import fetch_cost, fetches_of, loop_facts
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")
EARLY = Limit(value=0.2, unit="of fetches", source="docs/evidence/host-limits.md")


@rule("IO001", state="preview", fault=Fault.SLOW_SAMPLE, cases=("IO-14", "IO-07"))
def slow_sample(job: Job, fetches: Rows[Fetches], rates: Rows[InputRates], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding, of batches delayed by one slow sample."""
    found = host_loss(job, DUE, LIMIT, lambda split: _cost(job, fetches, split))
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    share = (row.early or 0) / row.fetches
    yield Loss(
        message=one_batch(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, AS_THEY_COME),
        confidence=confidence("IO001.slow_sample"),
        evidence=(
            *found.evidence,
            fact(job, row.rank, EARLY_BATCHES, share, "of fetches", EARLY.value),
            *loop_facts(job, rates, unprofiled, row),
        ),
        replay=("host:data-loading=0",) if has_device(job, row.rank) else (),
        actions=(_IN_ANY_ORDER,),
    )


def _cost(job: Job, fetches: Rows[Fetches], split: StepSplit) -> int | None:
    row = fetches_of(fetches, split.rank)
    if row is None or row.queue_wait_ns is None or (row.early or 0) <= EARLY.value * row.fetches:
        return None
    lost = fetch_cost(job, fetches, split, ("workers",))
    return None if lost is None else min(lost, row.queue_wait_ns // max(1, row.steps))


DUE = sentence("io001.due")
AS_THEY_COME = sentence("io001.as_they_come")
EARLY_BATCHES = sentence("io001.early_batches")


@message("io001.one_batch")
def one_batch(*, share: Share, on: Message | None = None) -> None:
    """A batch is late, and later batches are ready."""


_IN_ANY_ORDER = Action(
    title=sentence("io001.any_order"),
    do=sentence("io001.any_order_do"),
    verify=sentence("io001.any_order_verify"),
    risk=sentence("io001.any_order_risk"),
    source="PyTorch documentation of torch.utils.data: in_order",
    fit=OF_TORCH,
    cases=("IO-14", "IO-07"),
)
