"""Batches of data-parallel ranks differ in tokens.

## What it detects

Ranks of a data-parallel group look up unequal numbers of tokens, by the shapes of their embeddings, and the rank with
the most computes longer than its peers in step with that. The loss is what it computes beyond their median, per step.

## Why it costs you

All ranks wait for the one with the most work before gradients are reduced.

## When it is not a problem

When the work per token differs as much the other way, such as images beside text; the correlation with compute tells.

## What to do

Deal samples to ranks by their cost, pack sequences to equal length, or sort across ranks.

## How to check

Profile the same step again: tokens of the ranks are alike, and the others no longer wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.finding import Action, Blame, Cause, Evidence, Finding, Gain
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import PeerWait
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused import FusedOperator
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow import beside
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.10, unit="more tokens than the mean of the others", source="case PAR-05")
TOGETHER = Limit(value=0.90, unit="of correlation between tokens and compute", source="case PAR-05")
FLOOR = NOISE
_MOST = 4


@rule("PAR003", state="stable", cause=Cause.UNEVEN_BATCHES, cases=("PAR-05", "PAR-13", "PAR-14", "CMP-30"))
def uneven_tokens(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balances: Rows[Balance], fused: Rows[FusedOperator]
) -> Iterator[Finding]:
    """One finding a group, of the four that lose most."""
    made = [
        finding
        for balance in balances
        if balance.what == "tokens" and _beyond_others(balance) > LIMIT.value
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
) -> Finding | None:
    if balance.correlation is None or balance.correlation <= TOGETHER.value:
        return None
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
    return Finding(
        title=f"Rank {rank} has {more:.0%} more tokens than the mean of its group, and computes as much longer",
        ranks=found.ranks,
        blames=(Blame.of_rank(rank),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: it computes as long as the median of its peers"),
        confidence=round(0.9 * job.certainty, 2),
        evidence=(
            *found.evidence,
            Evidence(
                what="most tokens over the mean, less one",
                value=round(balance.imbalance, 6),
                unit="of the mean",
                threshold=LIMIT.value,
                where=f"{balance.group}, {balance.source}, median over steps",
            ),
            Evidence(
                what="correlation of tokens with compute",
                value=round(balance.correlation, 4),
                unit="of 1",
                threshold=TOGETHER.value,
                where=balance.group,
            ),
        ),
        replay=(f"compute:{rank}={1 - longer / own:.4g}",),
        apart=all(wait.peer != rank for wait in waits),
        actions=(
            Action(
                title="Deal samples to ranks by their cost",
                do="In the sampler, sort a window of samples by a * length + b * length^2 and give each, largest "
                "first, to the rank with the least so far; or pack sequences to a fixed number of tokens a batch.",
                verify="Tokens of the ranks in the report's table of balance differ by less than 10 %.",
                risk="The order of samples changes; keep it random over windows.",
                source="PyTorch performance tuning guide: load-balance workload in a distributed setting",
            ),
        ),
    )
