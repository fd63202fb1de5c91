"""The shape that three rules share: a class of operators that computes nothing takes a share of the kernels' time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hermes.analyze.compute_measures import OperatorCost, StepCompute
from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Threshold
from hermes.diagnose.rules._compute import faster, fresh, longest, lost, named, per_step, shown, vendor
from hermes.diagnose.rules._host import bound
from hermes.diagnose.rules._limits import NOISE
from hermes.knowledge.operators import LAYOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One of the classes of `hermes.knowledge.operators.LAYOUT`, and what is said of it."""

    code: str
    kind: str
    cause: str
    words: str
    part: Callable[[StepCompute], int | None]
    limit: Threshold
    ascend: Action
    others: Action


def found_layout(measures: Measures, layout: Layout) -> Iterator[Finding]:
    """At most one finding."""
    found = lost(measures, layout.words, layout.part, layout.limit, NOISE)
    if found is None:
        return

    def own(row: OperatorCost) -> float:
        if row.kind == layout.kind:
            return float(row.ns)
        # A library's operator may hold kernels that only change a format.
        return float(row.losses.layout_ns) if layout.kind == "format conversion" and row.kind not in LAYOUT else 0.0

    worst = longest(measures, own)
    yield Finding(
        code=layout.code,
        layer="compute",
        cause=layout.cause,
        title=f"{found.share:.0%} of the step is spent on {layout.words}",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        calls=per_step(measures, lambda row: row.calls * own(row) / row.ns if row.ns else 0.0).get(found.worst.rank),
        fresh=fresh(measures, found.worst.rank, own),
        share=found.share,
        gain=bound(measures, found, "none of them is left"),
        confidence=round(0.8 * measures.certainty, 2),
        evidence=(*found.evidence, *shown(worst, own)),
        replay=faster(measures, own),
        actions=(layout.ascend if vendor(measures, found.ranks) == "ascend" else layout.others,),
    )
