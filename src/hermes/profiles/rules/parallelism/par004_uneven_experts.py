"""Some ranks' experts get most of the tokens.

## What it detects

Rows of the grouped products of experts differ between the ranks of an expert-parallel group, beyond a fifth of the
mean; the loss is what the rank with the most computes beyond the median of its peers, per step.

## Why it costs you

The all-to-all that brings tokens back ends when the busiest expert is done.

## When it is not a problem

In the first steps, before the router has learnt; in a group of very few tokens.

## What to do

Use a loss that balances the router, copies of hot experts, or move experts among ranks.

## How to check

Profile the same step again: tokens of the ranks are alike, and waiting in all-to-all falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import PeerWait
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused import FusedOperator
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow import beside
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.20, unit="more tokens than the mean of the ranks", source="case PAR-06")
FLOOR = NOISE
_MOST = 4


@rule("PAR004", state="preview", fault=Fault.UNEVEN_EXPERTS, cases=("PAR-06",))
def uneven_experts(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balances: Rows[Balance], fused: Rows[FusedOperator]
) -> Iterator[Loss]:
    """One finding a group, of the four that lose most."""
    made = [
        finding
        for balance in balances
        if balance.what == "expert tokens" and balance.imbalance > LIMIT.value
        if (finding := _of_group(job, waits, pipelines, balance, fused))
    ]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _of_group(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balance: Balance, fused: Rows[FusedOperator]
) -> Loss | None:
    rank = balance.most_rank
    apart = beside(job, pipelines, rank, fused)
    longer = apart.compute_ns if apart else 0
    found = loss(
        job,
        "compute of the rank with the busiest experts beyond its peers",
        FLOOR,
        lambda split: longer if split.rank == rank else None,
    )
    if found is None:
        return None
    own = found.worst.compute_ns or 1
    return Loss(
        message=f"The experts of rank {rank} get {balance.most / balance.mean - 1:.0%} more tokens than the mean of "
        "the group",
        ranks=found.ranks,
        blames=(Blame.of_rank(rank),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: it computes as long as the median of its peers"),
        confidence=confidence("PAR004"),
        evidence=(
            *found.evidence,
            Evidence(
                what="most tokens over the mean, less one",
                value=round(balance.imbalance, 6),
                unit="of the mean",
                threshold=LIMIT.value,
                where=f"{balance.group}, {balance.source}, median over steps",
            ),
        ),
        replay=(f"compute:{rank}={1 - longer / own:.4g}",),
        apart=all(wait.peer != rank for wait in waits),
        actions=(
            Action(
                title="Balance the router, or move hot experts",
                do="A stronger loss or a bias that balances the router, or copies of hot experts on more ranks; "
                "--moe-aux-loss-coeff 1e-2 or --moe-router-enable-expert-bias in Megatron; --balanced-moe-experts "
                "in MindSpeed; enable_expert_placement: True in MindSpore.",
                verify="Tokens of the ranks in the report's table of balance differ by less than 20 %.",
                risk="A stronger loss may cost quality; moved experts change checkpoints.",
                source="MindSpeed, balanced_moe.md; Megatron-LM arguments",
            ),
        ),
    )
