"""Batch norm gathers its statistics from all ranks, layer by layer.

## What it detects

The collectives that layers of SyncBatchNorm launch in the typical step, forward and backward, as far as nothing is
computed beside them.

## Why it costs you

Each layer waits for all ranks twice: for mean and variance, and for their gradients. Such a collective carries some
kilobytes, so that its time is start and end, and the layer behind it cannot begin before. A straggler is waited for in
each layer instead of once a step.

## When it is not a problem

When a rank's own batch is too small for statistics of its own, as in detection and segmentation with one or two
pictures a rank: there the norm over ranks is what makes the model train.

## What to do

Leave plain batch norm where the batch of one rank is large, convert only the layers that need it, or take a norm
without statistics of a batch (group norm, layer norm). Fine-tuning with frozen statistics needs none at all.

## How to check

Profile again: a step has fewer collectives, and exposed communication is shorter. Compare the validation of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.profiles.measure.communication.norms import NormSync
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._host import bound, on
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = NOISE


@rule("COM011", state="preview", fault=Fault.SMALL_COLLECTIVES, cases=("CMP-29",))
def synchronised_norms(job: Job, norms: Rows[NormSync]) -> Iterator[Loss]:
    """At most one finding."""
    of = {norm.rank: norm for norm in norms}
    found = loss(
        job,
        "collectives of batch norm that nothing hides",
        LIMIT,
        lambda split: of[split.rank].exposed_ns if split.rank in of else None,
    )
    if found is None:
        return
    worst = of[found.worst.rank]
    yield Loss(
        message=f"{worst.layers} layers of batch norm ask all ranks for statistics, {found.share:.0%} of the step"
        f"{on(job, found)}",
        ranks=found.ranks,
        blames=(Blame("SyncBatchNorm", "operation"),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "no layer asks other ranks"),
        confidence=confidence("COM011"),
        evidence=(
            *found.evidence,
            Evidence(
                what="collectives of SyncBatchNorm",
                value=float(worst.collectives),
                unit="in the step, forward and backward",
                threshold=None,
                where=f"rank {worst.rank}, {worst.layers} layers",
            ),
        ),
        actions=(
            Action(
                title="Normalise on each rank",
                do="leave nn.BatchNorm2d in place of nn.SyncBatchNorm.convert_sync_batchnorm(model); or "
                "nn.GroupNorm(32, channels); fine-tuning: layer.eval() and no gradients for batch norm.",
                verify="Collectives of a step are those of gradients.",
                risk="accuracy where a rank's own batch is small: compare the validation.",
                source="PyTorch documentation of SyncBatchNorm; advisor of msprof-analyze, sync_batchnorm.yaml",
            ),
        ),
        within="COM004",
    )
