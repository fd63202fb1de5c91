"""Finds data-parallel ranks whose batches differ in tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import PeerWait
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused_kernels import FusedOperator
from hermes.profiles.rules._communication import waited_per_step
from hermes.profiles.rules._cost_by_rank import Spent, loss, percents
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules._limits import NOISE, TOGETHER
from hermes.profiles.rules._slow_ranks import beside
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.10, unit="more tokens than the mean of the others", source="case PAR-05")
IN_TURN = Limit(
    value=0.5, unit="of the imbalance of a step remains in the means of the ranks if one rank causes it",
    source="docs/decisions/0029-uneven-in-turn.md",
)  # fmt: skip
FLOOR = NOISE
_MOST = 4


@rule("PAR003", state="stable", fault=Fault.UNEVEN_BATCHES, cases=("PAR-05", "PAR-13", "PAR-14", "CMP-30"))
def uneven_tokens(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balances: Rows[Balance], fused: Rows[FusedOperator]
) -> Iterator[Loss]:
    """A finding for each group with uneven tokens, at most the four that lose most."""
    made = [
        finding
        for balance in balances
        if balance.what != "expert tokens" and _beyond_others(balance) > LIMIT.value
        if (finding := _of_group(job, waits, pipelines, balance, fused))
    ]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _beyond_others(balance: Balance) -> float:
    """How many more tokens the rank with most has than the mean of the other ranks, as a share of that mean."""
    others = len(balance.ranks) - 1
    left = others - balance.imbalance
    return (1 + balance.imbalance) * others / left - 1 if others > 0 and left > 0 else balance.imbalance


def _of_group(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balance: Balance, fused: Rows[FusedOperator]
) -> Loss | None:
    if balance.correlation is None or balance.correlation <= TOGETHER.value:
        return None
    if balance.most / balance.mean - 1 < IN_TURN.value * balance.imbalance:
        return _beyond_mean(job, waits, balance, late=None)
    if balance.what == "operations":
        # More operations on one rank may be its own work, or its experts.
        return None
    if not has_device(job, balance.most_rank):
        return _beyond_mean(job, waits, balance, late=balance.most_rank)
    apart = beside(job, pipelines, balance.most_rank, fused)
    longer = apart.compute_ns if apart else 0
    found = loss(
        job,
        COST_OF_RANK,
        FLOOR,
        lambda split: longer if split.rank == balance.most_rank else None,
    )
    if found is None:
        return None
    rank, more = balance.most_rank, balance.most / balance.mean - 1
    own = next(split.compute_ns for split in job.steps.every if split is found.worst) or 1
    finding = _finding(job, found, balance, rank, more, AS_MEDIAN)
    return replace(
        finding,
        replay=(f"compute:{rank}={1 - longer / own:.4g}",),
        apart=all(wait.peer != rank for wait in waits),
    )


def _beyond_mean(job: Job, waits: Rows[PeerWait], balance: Balance, *, late: int | None) -> Loss | None:
    """The time that ranks lose waiting for the rank with most work: always the rank `late`, or each in turn."""
    own = [wait for wait in waits if wait.rank in balance.ranks and wait.peer in balance.ranks]
    waited = sum(waited_per_step(job, wait) for wait in own) // len(balance.ranks)
    lost = min(balance.late_ns or 0, waited)
    found = loss(
        job,
        COST_OF_LONGEST,
        FLOOR,
        lambda split: lost if split.rank in balance.ranks else None,
    )
    if found is None:
        return None
    return _finding(job, found, balance, late, balance.imbalance, AS_MEAN)


def _finding(job: Job, found: Spent, balance: Balance, late: int | None, more: float, method: Message) -> Loss:
    """The finding of uneven work: of the rank `late`, or of each rank in turn."""
    work = _WORK[balance.what]
    return Loss(
        message=each_has_more(more=percents(more), work=work)
        if late is None
        else has_more(rank=str(late), more=percents(more), work=work),
        ranks=found.ranks,
        blames=() if late is None else (Blame.of_rank(late),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=method)),
        confidence=confidence("PAR003"),
        evidence=(*found.evidence, *_evidence(balance)),
        actions=(_ACTION,),
    )


def _evidence(balance: Balance) -> tuple[Evidence, ...]:
    return (
        Evidence(
            what=most(work=_WORK[balance.what]),
            value=round(balance.imbalance, 6),
            unit="of the mean",
            threshold=LIMIT.value,
            where=f"{balance.group}, {balance.source}, median over steps",
        ),
        Evidence(
            what=correlation(work=_WORK[balance.what]),
            value=round(balance.correlation or 0.0, 4),
            unit="of 1",
            threshold=TOGETHER.value,
            where=balance.group,
        ),
    )


_ACTION = Action(
    title=sentence("par003.deal_samples"),
    do=sentence("par003.deal_samples_do"),
    verify=sentence("par003.deal_samples_verify"),
    risk=sentence("par003.deal_samples_risk"),
    source="PyTorch performance tuning guide: load-balance workload in a distributed setting",
    cases=("PAR-05", "PAR-13", "PAR-14", "CMP-30"),
)


COST_OF_RANK = sentence("par003.cost_of_rank")
COST_OF_LONGEST = sentence("par003.cost_of_longest")
AS_MEDIAN = sentence("par003.as_median")
AS_MEAN = sentence("par003.as_mean")
TOKENS = sentence("par003.tokens")
OPERATIONS = sentence("par003.operations")
_WORK: Mapping[str, Message] = {"tokens": TOKENS, "operations": OPERATIONS}
"""The word for what a balance counts, such as tokens or operations."""


@message("par003.each_has_more")
def each_has_more(*, more: Share, work: Message) -> None:
    """Each rank in turn has most work."""


@message("par003.has_more")
def has_more(*, rank: Name, more: Share, work: Message) -> None:
    """One rank has most work."""


@message("par003.most")
def most(*, work: Message) -> None:
    """How uneven the work is."""


@message("par003.correlation")
def correlation(*, work: Message) -> None:
    """How well the work predicts compute time."""
