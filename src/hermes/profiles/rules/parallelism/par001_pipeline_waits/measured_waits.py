"""Finds pipeline stages that wait longer for each other than the schedule requires."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Count, Name, Share, message, sentence
from hermes.knowledge.actions import NO_RISK, variants
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import ANY, Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="more compute than the mean of the stages",
    source="stages of msprof-analyze: a gap from 5 % on; case PAR-03",
)
BEYOND = Limit(value=0.05, unit="of window beyond the schedule's own bubble", source="docs/evidence/noise.md")
FLOOR = NOISE
_MOST = 16


@rule(
    "PAR001",
    state="stable",
    fault=Fault.PIPELINE_BUBBLE,
    cases=("PAR-03", "PAR-14", "PAR-19", "PAR-04", "COM-36", "COM-42", "PAR-15"),
)
def pipeline_waits(job: Job, pipelines: Rows[Pipeline]) -> Iterator[Loss]:
    """A finding for a stage that computes longer, and a finding for waits that the stage does not explain."""
    line = pipelines.only
    if line is None:
        return
    uneven = _uneven(job, line)
    yield from uneven
    yield from _waits(job, line, sum(one.share for one in uneven))


def _uneven(job: Job, line: Pipeline) -> tuple[Loss, ...]:
    if line.imbalance is None or line.imbalance <= LIMIT.value:
        return ()
    computes = {stage.stage: stage.compute_ns for stage in line.stages if stage.compute_ns}
    slow = max(computes, key=lambda stage: (computes[stage], -stage))
    mean = sum(computes.values()) / len(computes)
    ranks = {rank for stage in line.stages if stage.stage == slow for rank in stage.ranks}
    found = loss(
        job,
        COST_OF_STAGE,
        FLOOR,
        lambda split: round(computes[slow] - mean) if split.rank in ranks else None,
    )
    if found is None:
        return ()
    factors = [
        f"layers:{rank}={mean / computes[stage.stage]:.4g}"
        for stage in line.stages
        if stage.stage in computes
        for rank in stage.ranks
    ]
    one = Loss(
        fault=Fault.UNEVEN_STAGES,
        message=longer_stage(stage=str(slow), share=percents(line.imbalance), stages=len(computes)),
        ranks=found.ranks,
        blames=(Blame(f"stage {slow}", "stage"),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=STAGES_ALIKE)),
        confidence=confidence("PAR001"),
        evidence=(
            *found.evidence,
            Evidence(
                what=OVER_MEAN,
                value=round(line.imbalance, 6),
                unit="of the mean",
                threshold=LIMIT.value,
                where=f"stages by {line.source}",
            ),
            *(
                Evidence(
                    what=compute_of(stage=str(stage.stage)),
                    value=float(stage.compute_ns or 0),
                    unit="ns",
                    threshold=None,
                    where=f"mean over {len(stage.ranks)} ranks, per step",
                )
                for stage in line.stages[:8]
            ),
            *_bubble(line),
        ),
        # A step with too many ranks is not replayed, and balancing only half of the ranks would tell nothing.
        replay=tuple(factors) if len(factors) <= _MOST else (),
        actions=tuple(replace(one, title=take_layers(stage=str(slow))) for one in _TAKE_LAYERS),
    )
    return (one,)


def _waits(job: Job, line: Pipeline, explained: float) -> Iterator[Loss]:
    """Findings of waits longer than the schedule's, and longer than this share of the step."""
    own = line.structural_share
    if own is None or line.bubble_share is None or line.bubble_share - own - explained <= BEYOND.value:
        return
    bubbles = {rank: stage.bubble_ns for stage in line.stages for rank in stage.ranks}
    found = loss(
        job,
        COST_OF_WAITS,
        BEYOND,
        lambda split: (
            round(bubbles[split.rank] - (own + explained) * split.window_ns) if split.rank in bubbles else None
        ),
    )
    if found is None:
        return
    most = bubbles[found.worst.rank] / found.worst.window_ns
    yield Loss(
        message=stage_waits(share=percents(most), own=percents(own)),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=ONLY_SCHEDULE)),
        confidence=confidence("PAR001.estimated" if any(stage.estimated for stage in line.stages) else "PAR001.bubble"),
        evidence=(*found.evidence, *_bubble(line)),
        actions=(
            Action(
                title=LOOK_FOR_DELAY,
                do=LOOK_FOR_DELAY_DO,
                verify=LOOK_FOR_DELAY_VERIFY,
                risk=NO_RISK,
                source="Narayanan et al., SC'21, section 2.2.1",
                cases=("PAR-14",),
            ),
        ),
    )


def _bubble(line: Pipeline) -> Iterator[Evidence]:
    if line.structural_share is not None and line.bubble_share is not None:
        yield Evidence(
            what=BUBBLE,
            value=round(line.bubble_share, 6),
            unit="of the step",
            threshold=round(line.structural_share + BEYOND.value, 6),
            where=f"mean over {len(line.stages)} stages, {line.micro_batches} micro-batches",
        )


COST_OF_STAGE = sentence("par001.cost_of_stage")
STAGES_ALIKE = sentence("par001.stages_alike")
OVER_MEAN = sentence("par001.over_mean")
_TAKE_LAYERS = variants(
    "par001.take_layers",
    {
        "_mindspeed": Fit(libraries=("mindspeed",)),
        "_megatron": Fit(libraries=("megatron",)),
        "": ANY,
    },
    title=STAGES_ALIKE,
    source="MindSpeed, unaligned-pipeline.md and noop-layers.md; Megatron-LM arguments",
    cases=("PAR-03",),
)
COST_OF_WAITS = sentence("par001.cost_of_waits")
ONLY_SCHEDULE = sentence("par001.only_schedule")
LOOK_FOR_DELAY = sentence("par001.look_for_delay")
LOOK_FOR_DELAY_DO = sentence("par001.look_for_delay_do")
LOOK_FOR_DELAY_VERIFY = sentence("par001.look_for_delay_verify")
BUBBLE = sentence("par001.bubble")


@message("par001.longer_stage")
def longer_stage(*, stage: Name, share: Share, stages: Count) -> None:
    """A pipeline stage computes longer than the others."""


@message("par001.compute_of")
def compute_of(*, stage: Name) -> None:
    """The compute time of one stage."""


@message("par001.stage_waits")
def stage_waits(*, share: Share, own: Share) -> None:
    """Stages wait longer than the schedule requires."""


@message("par001.take_layers")
def take_layers(*, stage: Name) -> None:
    """To take layers from the slowest stage."""
