"""Stages of the pipeline differ in work.

## What it detects

The stage that computes longest, beyond the mean of all stages, per step.

## Why it costs you

A pipeline moves at the pace of its slowest stage; all others wait in their receives.

## When it is not a problem

When the slow stage holds what cannot be split (embedding, logits) and the difference is below noise.

## What to do

Give the slow stage fewer layers; count embedding and loss as layers when they are dealt out.

## How to check

Profile the same step again: compute of the stages is alike, and the time in receives falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="more compute than the mean of the stages",
    source="stages of msprof-analyze: a gap from 5 % on; case PAR-03",
)
FLOOR = NOISE
_MOST = 16


@rule("PAR001", state="stable", fault=Fault.UNEVEN_STAGES, cases=("PAR-03", "PAR-14", "PAR-19"))
def uneven_stages(job: Job, pipelines: Rows[Pipeline]) -> Iterator[Loss]:
    """At most one finding."""
    line = pipelines.only
    if line is None or line.imbalance is None or line.imbalance <= LIMIT.value:
        return
    computes = {stage.stage: stage.compute_ns for stage in line.stages if stage.compute_ns}
    slow = max(computes, key=lambda stage: (computes[stage], -stage))
    mean = sum(computes.values()) / len(computes)
    ranks = {rank for stage in line.stages if stage.stage == slow for rank in stage.ranks}
    found = loss(
        job,
        "compute of the slowest stage beyond the mean",
        FLOOR,
        lambda split: round(computes[slow] - mean) if split.rank in ranks else None,
    )
    if found is None:
        return
    factors = [
        f"layers:{rank}={mean / computes[stage.stage]:.4g}"
        for stage in line.stages
        if stage.stage in computes
        for rank in stage.ranks
    ]
    yield Loss(
        message=f"Stage {slow} of the pipeline computes {line.imbalance:.0%} longer than the mean of its "
        f"{len(computes)} stages",
        ranks=found.ranks,
        blames=(Blame(f"stage {slow}", "stage"),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: all stages compute as long as their mean"),
        confidence=confidence("PAR001"),
        evidence=(
            *found.evidence,
            Evidence(
                what="compute of the slowest stage over the mean, less one",
                value=round(line.imbalance, 6),
                unit="of the mean",
                threshold=LIMIT.value,
                where=f"stages by {line.source}",
            ),
            *(
                Evidence(
                    what=f"compute of stage {stage.stage}",
                    value=float(stage.compute_ns or 0),
                    unit="ns",
                    threshold=None,
                    where=f"mean over {len(stage.ranks)} ranks, per step",
                )
                for stage in line.stages[:8]
            ),
        ),
        # Beyond so many ranks a step is not replayed, and half a balance would be none.
        replay=tuple(factors) if len(factors) <= _MOST else (),
        actions=(
            Action(
                title=f"Take layers from stage {slow}",
                do="Give it fewer layers, and the others more, where the model is cut into stages; "
                "--pipeline-num-transformer-layers [[…]] or --noop-layers 0,N in MindSpeed; "
                "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers or "
                "account_for_loss_in_pipeline_split in Megatron.",
                verify="Compute of the stages in the report's table of the pipeline is within 5 %.",
                risk="Checkpoints must be split anew; memory of stages changes.",
                source="MindSpeed, unaligned-pipeline.md and noop-layers.md; Megatron-LM arguments",
            ),
        ),
    )
