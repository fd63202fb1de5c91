"""Batch norm gathers its statistics from all ranks, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TORCH_TRAINS
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.profiles.measure.communication.synchronised_norms import NormSync
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._host import bound
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = NOISE


@rule("COM004", state="preview", fault=Fault.SMALL_COLLECTIVES, cases=("CMP-29",))
def synchronised_norms(job: Job, norms: Rows[NormSync]) -> Iterator[Loss]:
    """At most one finding, of batch norms that synchronise their statistics over ranks."""
    of = {norm.rank: norm for norm in norms}
    found = loss(
        job,
        COST_OF_NORMS,
        LIMIT,
        lambda split: of[split.rank].exposed_ns if split.rank in of else None,
    )
    if found is None:
        return
    worst = of[found.worst.rank]
    yield Loss(
        message=norms_ask(layers=str(worst.layers), share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=(Blame("SyncBatchNorm", "operation"),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, ALONE),
        confidence=confidence("COM004.synchronised_norms"),
        evidence=(
            *found.evidence,
            Evidence(
                what=OF_NORMS,
                value=float(worst.collectives),
                unit="in the step, forward and backward",
                threshold=None,
                where=f"rank {worst.rank}, {worst.layers} layers",
            ),
        ),
        actions=(_ON_EACH_RANK,),
    )


COST_OF_NORMS = sentence("com004.cost_of_norms")
ALONE = sentence("com004.alone")
OF_NORMS = sentence("com004.of_norms")
_ON_EACH_RANK = action(
    "com004.normalise_on_rank",
    source="PyTorch documentation of SyncBatchNorm; advisor of msprof-analyze, sync_batchnorm.yaml",
    fit=TORCH_TRAINS,
    cases=("CMP-29",),
)


@message("com004.norms_ask")
def norms_ask(*, layers: Name, share: Share, on: Message | None = None) -> None:
    """Layers of batch norm need values of all ranks."""
