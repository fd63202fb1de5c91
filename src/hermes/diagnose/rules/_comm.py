"""What rules about communication share: transfers that nothing hides, per step of a rank."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.analyze.comm_measures import GroupOp, LinkPair
from hermes.analyze.measures import StepSplit
from hermes.diagnose.rule import Measures, Threshold
from hermes.diagnose.rules._component import Loss, loss, steps_of

SLOWER = Threshold(
    value=0.05,
    unit="longer than the median of its like",
    source="slow link, 5 %: msprof-analyze and MindStudio Insight",
)
CHANCE = Threshold(
    value=0.05,
    unit="is the most that chance may explain, all links counted",
    source="docs/decisions/0012-communication.md",
)
FAR = Threshold(
    value=0.50,
    unit="longer in every size and step is beyond chance however few those are",
    source="docs/evidence/noise.md",
)
_LEAST = 3
"""Sizes and steps in which a link must have been compared."""


def slow_link(link: LinkPair) -> bool:
    """Whether a link is slower than its like, by more than chance explains."""
    if link.ratio is None or link.ratio <= 1 + SLOWER.value or not link.excess_ns or link.excess_ns < 0:
        return False
    far = link.ratio > 1 + FAR.value and link.slower == link.compared >= _LEAST
    return far or (link.p_value is not None and link.p_value < CHANCE.value)


def exposed_transfer(measures: Measures, group: GroupOp) -> float | None:
    """Nanoseconds per step of each of its ranks, after the last arrival, beside which nothing is computed."""
    if group.transfer_ns is None:
        return None
    after = group.transfer_ns + (group.idle_ns or 0) - (group.hidden_ns or 0)
    return max(0, after) / steps_of(measures, group.ranks)


def exposed_by_rank(measures: Measures) -> dict[int, float]:
    """Exposed transfers of all groups per step of each rank whose operations could be split from their waits."""
    found: dict[int, float] = {}
    for group in measures.communication.groups:
        ns = exposed_transfer(measures, group)
        if ns is not None:
            for rank in group.ranks:
                found[rank] = found.get(rank, 0.0) + ns
    return found


def exposed_comm(measures: Measures, split: StepSplit) -> int | None:
    """Nanoseconds of a step in which it communicates and computes nothing; without a device, of its typical step."""
    if split.compute_ns is not None or split.exposed_comm_ns is not None:
        return split.exposed_comm_ns
    rows = (row for row in measures.host.overlap if (row.rank, row.step) == (split.rank, split.step))
    parts = [part for row in rows for part in row.parts if part.component == "communication"]
    return sum(part.exposed_ns for part in parts) if parts else None


def exposed_loss(measures: Measures, what: str, limit: Threshold, costs: Mapping[int, float]) -> Loss | None:
    """The ranks on which something costs more than the limit; no more than what of their transfers nothing hides."""
    most = exposed_by_rank(measures)
    return loss(
        measures,
        what,
        limit,
        lambda split: (
            None
            if split.rank not in costs or (exposed := exposed_comm(measures, split)) is None
            else round(min(costs[split.rank], exposed, most.get(split.rank, float("inf"))))
        ),
    )


def bubble_of(measures: Measures, rank: int) -> int:
    """What a rank waits for other pipeline stages per step; 0 without a pipeline."""
    line = measures.structure.pipeline
    return next((stage.bubble_ns for stage in (line.stages if line else ()) if rank in stage.ranks), 0)
