"""Batches of data-parallel ranks differ in tokens.

## What it detects

Ranks of a data-parallel group look up unequal numbers of tokens, by the shapes of their embeddings, and the rank with
the most computes longer than its peers in step with that. The loss is what it computes beyond their median, per step.

Where another rank has the most from step to step, as with samples of any length, the loss is what the rank that
computes longest takes beyond the mean of all, on average over steps; no more than they wait for each other. There the
operations of products, convolutions and attention stand for tokens that are not known, in jobs without experts.

## Why it costs you

All ranks wait for the one with the most work before gradients are reduced.

## When it is not a problem

When the work per token differs as much the other way, such as images beside text; the correlation with compute tells.

## What to do

Deal samples to ranks by their cost, pack sequences to equal length, or sort across ranks.

## How to check

Profile the same steps again: tokens of the ranks are alike, and the others no longer wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import PeerWait
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused import FusedOperator
from hermes.profiles.rules._comm import waited_per_step
from hermes.profiles.rules._component import Spent, loss
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules._limits import NOISE, TOGETHER
from hermes.profiles.rules._slow import beside
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.10, unit="more tokens than the mean of the others", source="case PAR-05")
IN_TURN = Limit(
    value=0.5, unit="of the imbalance of a step remains in the means of the ranks, where one rank makes it",
    source="docs/decisions/0029-uneven-in-turn.md",
)  # fmt: skip
FLOOR = NOISE
_MOST = 4


@rule("PAR003", state="stable", fault=Fault.UNEVEN_BATCHES, cases=("PAR-05", "PAR-13", "PAR-14", "CMP-30"))
def uneven_tokens(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balances: Rows[Balance], fused: Rows[FusedOperator]
) -> Iterator[Loss]:
    """One finding a group, of the four that lose most."""
    made = [
        finding
        for balance in balances
        if balance.what != "expert tokens" and _beyond_others(balance) > LIMIT.value
        if (finding := _of_group(job, waits, pipelines, balance, fused))
    ]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _beyond_others(balance: Balance) -> float:
    """How many more tokens the rank with most has than the mean of the others; of few ranks it is much of the mean."""
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
        # More of them on one rank may be work of its own, or its experts.
        return None
    if not has_device(job, balance.most_rank):
        return _beyond_mean(job, waits, balance, late=balance.most_rank)
    apart = beside(job, pipelines, balance.most_rank, fused)
    longer = apart.compute_ns if apart else 0
    found = loss(
        job,
        "compute of the rank with the most tokens beyond its peers",
        FLOOR,
        lambda split: longer if split.rank == balance.most_rank else None,
    )
    if found is None:
        return None
    rank, more = balance.most_rank, balance.most / balance.mean - 1
    own = next(split.compute_ns for split in job.steps.every if split is found.worst) or 1
    finding = _finding(job, found, balance, rank, more, "it computes as long as the median of its peers")
    return replace(
        finding,
        replay=(f"compute:{rank}={1 - longer / own:.4g}",),
        apart=all(wait.peer != rank for wait in waits),
    )


def _beyond_mean(job: Job, waits: Rows[PeerWait], balance: Balance, *, late: int | None) -> Loss | None:
    """What ranks lose that wait for the one with the most work: for the same one, `late`, or for each in turn."""
    own = [wait for wait in waits if wait.rank in balance.ranks and wait.peer in balance.ranks]
    waited = sum(waited_per_step(job, wait) for wait in own) // len(balance.ranks)
    lost = min(balance.late_ns or 0, waited)
    found = loss(
        job,
        "compute of the rank that computes longest beyond the mean",
        FLOOR,
        lambda split: lost if split.rank in balance.ranks else None,
    )
    if found is None:
        return None
    return _finding(job, found, balance, late, balance.imbalance, "all ranks compute as long as their mean")


def _finding(job: Job, found: Spent, balance: Balance, late: int | None, more: float, method: str) -> Loss:
    """What uneven work costs: of the rank `late`, or of each in turn."""
    who = "In turn each rank" if late is None else f"Rank {late}"
    return Loss(
        message=f"{who} has {more:.0%} more {balance.what} than the mean of its group, and computes as much longer",
        ranks=found.ranks,
        blames=() if late is None else (Blame.of_rank(late),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=f"bound: {method}"),
        confidence=confidence("PAR003"),
        evidence=(*found.evidence, *_evidence(balance)),
        actions=(_ACTION,),
    )


def _evidence(balance: Balance) -> tuple[Evidence, ...]:
    return (
        Evidence(
            what=f"most {balance.what} over the mean, less one",
            value=round(balance.imbalance, 6),
            unit="of the mean",
            threshold=LIMIT.value,
            where=f"{balance.group}, {balance.source}, median over steps",
        ),
        Evidence(
            what=f"correlation of {balance.what} with compute",
            value=round(balance.correlation or 0.0, 4),
            unit="of 1",
            threshold=TOGETHER.value,
            where=balance.group,
        ),
    )


_ACTION = Action(
    title="Deal samples to ranks by their cost",
    do="In the sampler, sort a window of samples by a * length + b * length^2 and give each, largest "
    "first, to the rank with the least so far; or pack sequences to a fixed number of tokens a batch.",
    verify="Tokens of the ranks in the report's table of balance differ by less than 10 %.",
    risk="The order of samples changes; keep it random over windows.",
    source="PyTorch performance tuning guide: load-balance workload in a distributed setting",
)
