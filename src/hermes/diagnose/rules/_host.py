"""The shape that two rules share: calls that hold the host up, and the free device time they leave."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.analyze.measures import Held
from hermes.diagnose.finding import Evidence
from hermes.diagnose.rule import Measures, Threshold, by_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The ranks on which calls of one cause leave the device free beyond the limit, and the worst of them."""

    ranks: tuple[int, ...]
    worst: Held
    cost_ns: int
    share: float
    evidence: tuple[Evidence, ...]


def idle_loss(measures: Measures, cause: str, limit: Threshold) -> Loss | None:
    """Per rank the free time per step against the window of its median step; None when no rank is beyond."""
    beyond: list[tuple[int, float, Held]] = []
    for row in measures.held:
        split = measures.median_of(row.rank)
        cost = row.idle_ns // max(1, measures.steps_of_rank.get(row.rank, 1))
        if row.cause == cause and split and split.window_ns and by_share(limit, cost / split.window_ns):
            beyond.append((cost, cost / split.window_ns, row))
    if not beyond:
        return None
    cost, share, worst = max(beyond, key=lambda one: (one[0], -one[2].rank))
    steps = max(1, measures.steps_of_rank.get(worst.rank, 1))
    file = measures.inputs.get(worst.rank, "")
    place = f"rank {worst.rank}, {steps} steps ({file})"
    return Loss(
        ranks=tuple(sorted(row.rank for _, _, row in beyond)),
        worst=worst,
        cost_ns=cost,
        share=share,
        evidence=(
            Evidence(
                what="free device time in and after the calls",
                value=round(share, 6),
                unit="of window",
                threshold=limit.value,
                where=place,
            ),
            Evidence(
                what=f"{worst.calls} calls, host time in them",
                value=float(worst.host_ns),
                unit="ns",
                threshold=None,
                where=place,
            ),
            Evidence(
                what="longest call",
                value=float(worst.longest_ns),
                unit="ns",
                threshold=None,
                where=f"rank {worst.rank}, at {worst.longest_at_ns} ns ({file})",
            ),
        ),
    )
