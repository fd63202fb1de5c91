"""Finds pipelines with too few micro-batches for their number of stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Count, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TRAINS
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.15, unit="of window", source="case PAR-01; Narayanan et al., SC'21, section 2.2.1")
AIM = Limit(
    value=0.10,
    unit="of window remains with enough micro-batches",
    source="MindSpeed, dualpipev.md, table of bubbles: 8 stages with 64 micro-batches",
)


@rule("PAR001", state="preview", fault=Fault.TOO_FEW_MICRO_BATCHES, cases=("PAR-01", "PAR-02", "PAR-04"))
def few_micro_batches(job: Job, pipelines: Rows[Pipeline]) -> Iterator[Loss]:
    """At most one finding, of pipelines with too few micro-batches."""
    line = pipelines.only
    if line is None or line.structural_share is None or line.bubble_share is None or line.micro_batches is None:
        return
    # Uneven stages stretch the window, and the bubble too: that part belongs to the measured waits.
    even = 1 / (1 + (line.imbalance or 0.0))
    share = min(line.structural_share * even, line.bubble_share)
    found = loss(job, COST_OF_SCHEDULE, LIMIT, lambda split: round(share * split.window_ns))
    if found is None:
        return
    stages = max(stage.stage for stage in line.stages) + 1
    enough = -(-round((stages - 1) * (1 - AIM.value) * 1_000) // round(AIM.value * 1_000))
    yield Loss(
        message=schedule_leaves(stages=stages, micro_batches=line.micro_batches, share=percents(share)),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=0,
            high_ns=round(found.cost_ns * max(0.0, 1 - AIM.value / share)),
            method=at_most(when=ENOUGH),
        ),
        # No profile tells whether memory and the global batch allow more micro-batches.
        confidence=confidence("PAR001.few_micro_batches"),
        assumed=True,
        evidence=(
            *found.evidence,
            Evidence(
                what=MEASURED,
                value=round(line.bubble_share, 6),
                unit="of the step",
                threshold=None,
                where=f"mean over {len(line.stages)} stages",
            ),
        ),
        actions=_more(enough),
    )


def _more(enough: int) -> tuple[Action, ...]:
    base = Action(
        title=use_more(enough=enough),
        do=use_more_do(enough=enough),
        verify=USE_MORE_VERIFY,
        risk=USE_MORE_RISK,
        source="Narayanan et al., SC'21, section 2.2",
        fit=TRAINS,
        cases=("PAR-01", "PAR-02"),
    )
    megatron = Fit(libraries=("megatron", "mindspeed"), phase="training")
    return (replace(base, do=use_more_do_megatron(enough=enough), fit=megatron), base)


COST_OF_SCHEDULE = sentence("par001.cost_of_schedule")
ENOUGH = sentence("par001.enough")
MEASURED = sentence("par001.measured")
USE_MORE_VERIFY = sentence("par001.use_more_verify")
USE_MORE_RISK = sentence("par001.use_more_risk")


@message("par001.schedule_leaves")
def schedule_leaves(*, stages: Count, micro_batches: Count, share: Share) -> None:
    """A schedule with few micro-batches leaves a bubble."""


@message("par001.use_more")
def use_more(*, enough: Count) -> None:
    """To use more micro-batches."""


@message("par001.use_more_do")
def use_more_do(*, enough: Count) -> None:
    """How to use more micro-batches."""


@message("par001.use_more_do_megatron")
def use_more_do_megatron(*, enough: Count) -> None:
    """How to use more micro-batches in Megatron and MindSpeed."""
