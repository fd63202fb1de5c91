"""Finds a class of operators that computes nothing, such as casts, and takes a share of the kernels' time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.operators import LAYOUT
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.finding import Action, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import faster, longest, lost, named, of_device, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import bound
from hermes.profiles.rules._limits import NOISE


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A class of `hermes.knowledge.operators.LAYOUT`, with the messages of its finding."""

    kind: str
    words: Message
    part: Callable[[StepCompute], int | None]
    limit: Limit
    confidence: float
    fused: Action
    others: Action


def found_layout(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], layout: Layout) -> Iterator[Loss]:
    """At most one finding, of one class of operators that compute nothing."""
    found = lost(job, computes, layout.words, layout.part, layout.limit, NOISE)
    if found is None:
        return

    def own(row: OperatorCost) -> float:
        if row.kind == layout.kind:
            return float(row.ns)
        # A library's operator may consist of kernels that only change a format.
        return float(row.losses.layout_ns) if layout.kind == "format conversion" and row.kind not in LAYOUT else 0.0

    worst = longest(ops, own)
    yield Loss(
        message=spent_on(share=percents(found.share), words=layout.words),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, NONE_LEFT),
        confidence=layout.confidence,
        evidence=(*found.evidence, *shown(worst, own)),
        replay=faster(ops, own),
        actions=(layout.fused if of_device(job, found.ranks).fused else layout.others,),
    )


NONE_LEFT = sentence("cmp004.none_left")


@message("cmp004.spent_on")
def spent_on(*, share: Share, words: Message) -> None:
    """Operators of one class take a share of the kernels' time."""
