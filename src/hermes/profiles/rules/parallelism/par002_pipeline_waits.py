"""The pipeline waits longer than its schedule makes it.

## What it detects

The share of the step in which stages wait for each other, beyond the share that a schedule of so many stages and
micro-batches cannot avoid, (p - 1) / (m + p - 1).

## Why it costs you

What the schedule does not explain comes from stages of unequal length, slow sends and receives, or a host that is late.

## When it is not a problem

When the micro-batches could not be counted, the bubble is only compared with nothing, and the rule stays silent.
Interleaved schedules have less than the formula says, so that they are judged too kindly.

## What to do

See whether stages differ (PAR001), whether one rank is slow (CMP011, COM002), and how long sends and receives take.

## How to check

Profile the same step again: the bubble comes near the schedule's.
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

LIMIT = Limit(value=0.05, unit="of window beyond the schedule's own bubble", source="docs/evidence/noise.md")


@rule("PAR002", state="stable", fault=Fault.PIPELINE_BUBBLE, cases=("PAR-03", "PAR-04", "COM-36", "COM-42", "PAR-15"))
def pipeline_waits(job: Job, pipelines: Rows[Pipeline]) -> Iterator[Loss]:
    """At most one finding."""
    line = pipelines.only
    if line is None or line.structural_share is None or line.bubble_share is None:
        return
    beyond = line.bubble_share - line.structural_share
    if beyond <= LIMIT.value:
        return
    own = line.structural_share
    bubbles = {rank: stage.bubble_ns for stage in line.stages for rank in stage.ranks}
    found = loss(
        job,
        "bubble beyond the schedule's",
        LIMIT,
        lambda split: round(bubbles[split.rank] - own * split.window_ns) if split.rank in bubbles else None,
    )
    if found is None:
        return
    uneven = (line.imbalance or 0) > LIMIT.value
    most = bubbles[found.worst.rank] / found.worst.window_ns
    yield Loss(
        message=f"A stage waits for the others {most:.0%} of the step, where the schedule needs {own:.0%}",
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: only the schedule's own bubble is left"),
        confidence=confidence("PAR002.estimated" if any(stage.estimated for stage in line.stages) else "PAR002"),
        evidence=(
            *found.evidence,
            Evidence(
                what="bubble",
                value=round(line.bubble_share, 6),
                unit="of the step",
                threshold=round(own + LIMIT.value, 6),
                where=f"mean over {len(line.stages)} stages, {line.micro_batches} micro-batches",
            ),
        ),
        actions=(
            Action(
                title="Balance the stages first" if uneven else "Look for what delays the stages",
                do="See PAR001 for the stage that computes longest."
                if uneven
                else "Follow the critical path through the receives: it leads to a stage, its host or its link.",
                verify="The bubble of the report's table of the pipeline comes near the schedule's.",
                risk="none",
                source="Narayanan et al., SC'21, section 2.2.1",
            ),
        ),
    )
