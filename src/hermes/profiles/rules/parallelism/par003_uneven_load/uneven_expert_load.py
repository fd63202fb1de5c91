"""Finds ranks whose experts get most of the tokens."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Rank, Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import ANY, Fit
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import PeerWait
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused_kernels import FusedOperator
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow_ranks import beside
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.20, unit="more tokens than the mean of the ranks", source="case PAR-06")
FLOOR = NOISE
_MOST = 4


@rule("PAR003", state="preview", fault=Fault.UNEVEN_EXPERTS, cases=("PAR-06",))
def uneven_experts(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], balances: Rows[Balance], fused: Rows[FusedOperator]
) -> Iterator[Loss]:
    """A finding for each group with uneven experts, at most the four that lose most."""
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
        COST_OF_EXPERTS,
        FLOOR,
        lambda split: longer if split.rank == rank else None,
    )
    if found is None:
        return None
    own = found.worst.compute_ns or 1
    return Loss(
        message=experts_get(rank=rank, more=percents(balance.most / balance.mean - 1)),
        ranks=found.ranks,
        blames=(Blame.of_rank(rank),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AS_PEERS)),
        confidence=confidence("PAR003.experts"),
        evidence=(
            *found.evidence,
            Evidence(
                what=MOST_TOKENS,
                value=round(balance.imbalance, 6),
                unit="of the mean",
                threshold=LIMIT.value,
                where=f"{balance.group}, {balance.source}, median over steps",
            ),
        ),
        replay=(f"compute:{rank}={1 - longer / own:.4g}",),
        apart=all(wait.peer != rank for wait in waits),
        actions=_BALANCE,
    )


COST_OF_EXPERTS = sentence("par003.cost_of_experts")
AS_PEERS = sentence("par003.as_peers")
MOST_TOKENS = sentence("par003.most_tokens")
_BALANCE = variants(
    "par003.balance_router",
    {
        "_mindspeed": Fit(libraries=("mindspeed",)),
        "_megatron": Fit(libraries=("megatron",)),
        "_mindspore": Fit(frameworks=("mindspore",)),
        "": ANY,
    },
    source="MindSpeed, balanced_moe.md; Megatron-LM arguments",
    cases=("PAR-06",),
)


@message("par003.experts_get")
def experts_get(*, rank: Rank, more: Share) -> None:
    """The experts of one rank get more tokens than others."""
