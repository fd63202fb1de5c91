"""The pipeline has too few micro-batches for its length.

## What it detects

The bubble that the schedule itself makes, (p - 1) / (m + p - 1) of the step for p stages and m micro-batches, where it
was also measured.

## Why it costs you

While the pipeline fills and drains, stages have nothing to do. With as many micro-batches as stages that is nearly half
of the step.

## When it is not a problem

When memory or the global batch allows no more micro-batches, and virtual stages were tried.

## What to do

Use more micro-batches, fewer stages, or virtual stages.

## How to check

Profile the same step again: the bubble is as small as the formula says for the new numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._component import loss
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.15, unit="of window", source="case PAR-01; Narayanan et al., SC'21, section 2.2.1")
AIM = Limit(
    value=0.10,
    unit="of window is left with enough micro-batches",
    source="MindSpeed, dualpipev.md, table of bubbles: 8 stages with 64 micro-batches",
)


@rule("PAR005", state="preview", fault=Fault.TOO_FEW_MICRO_BATCHES, cases=("PAR-01", "PAR-02", "PAR-04"))
def few_micro_batches(job: Job, pipelines: Rows[Pipeline]) -> Iterator[Loss]:
    """At most one finding."""
    line = pipelines.only
    if line is None or line.structural_share is None or line.bubble_share is None or line.micro_batches is None:
        return
    # Stages that differ stretch the window, and the bubble with it: that part is PAR001's.
    even = 1 / (1 + (line.imbalance or 0.0))
    share = min(line.structural_share * even, line.bubble_share)
    found = loss(job, "bubble of the schedule", LIMIT, lambda split: round(share * split.window_ns))
    if found is None:
        return
    stages = max(stage.stage for stage in line.stages) + 1
    enough = -(-round((stages - 1) * (1 - AIM.value) * 1_000) // round(AIM.value * 1_000))
    yield Loss(
        message=f"The schedule of {stages} stages and {line.micro_batches} micro-batches leaves {share:.0%} of the "
        "step idle",
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=0,
            high_ns=round(found.cost_ns * max(0.0, 1 - AIM.value / share)),
            method="bound: micro-batches enough for a bubble of 10 %, each as efficient as now",
        ),
        # Whether memory and the global batch allow more of them is in no profile.
        confidence=confidence("PAR005"),
        assumed=True,
        evidence=(
            *found.evidence,
            Evidence(
                what="bubble that was measured",
                value=round(line.bubble_share, 6),
                unit="of the step",
                threshold=None,
                where=f"mean over {len(line.stages)} stages",
            ),
        ),
        actions=(
            Action(
                title=f"Use {enough} micro-batches or virtual stages",
                do=f"Raise the global batch, or halve the micro-batch, until a step has {enough} micro-batches; "
                "--num-layers-per-virtual-pipeline-stage; or fewer stages.",
                verify="The bubble in the report's table of the pipeline falls to 10 %.",
                risk="Global batch and convergence; small micro-batches use the device worse; virtual stages send "
                "more often.",
                source="Narayanan et al., SC'21, section 2.2",
            ),
        ),
    )
