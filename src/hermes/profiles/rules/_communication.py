"""Costs that rules about communication share: exposed transfers and waits per step of a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.base.message import Message
from hermes.model.comm_measures import GroupOp, LinkPair
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._cost_by_rank import Spent, loss, steps_of

SLOWER = Limit(
    value=0.05,
    unit="longer than the median of links of its kind",
    source="slow link, 5 %: msprof-analyze and MindStudio Insight",
)
CHANCE = Limit(
    value=0.05,
    unit="is the largest probability of chance, over all links",
    source="docs/decisions/0012-communication.md",
)
FAR = Limit(
    value=0.50,
    unit="longer in every size and step is beyond chance however few those are",
    source="docs/evidence/noise.md",
)
_LEAST = 3
"""The least number of sizes and steps in which a link must have been compared."""


def waited_per_step(job: Job, wait: PeerWait) -> int:
    """The least nanoseconds per step that a rank waited for a peer.

    Waits on several planes run at once, so the longest is a lower bound, also after division by the number of steps.
    """
    mean = wait.total_ns // max(1, job.steps.counts.get(wait.rank, 1))
    return mean if wait.disjoint else min(wait.longest_ns, mean)


def is_slow(link: LinkPair) -> bool:
    """Whether a link is slower than its peers, by more than chance explains."""
    if link.ratio is None or link.ratio <= 1 + SLOWER.value or not link.excess_ns or link.excess_ns < 0:
        return False
    far = link.ratio > 1 + FAR.value and link.slower == link.compared >= _LEAST
    return far or (link.p_value is not None and link.p_value < CHANCE.value)


def exposed_transfer(job: Job, group: GroupOp) -> float | None:
    """Nanoseconds per step of a group's rank, after the last arrival, beside which the rank computes nothing."""
    if group.transfer_ns is None:
        return None
    after = group.transfer_ns + (group.idle_ns or 0) - (group.hidden_ns or 0)
    return max(0, after) / steps_of(job, group.ranks)


def exposed_by_rank(job: Job, groups: Rows[GroupOp]) -> dict[int, float]:
    """The exposed transfers of all groups per step, for ranks whose operations were split into wait and transfer."""
    return _by_rank(groups, lambda group: exposed_transfer(job, group))


def waited_by_rank(job: Job, groups: Rows[GroupOp]) -> dict[int, float]:
    """The waits for other ranks in all collectives per step, for ranks whose operations were split; a mean of ranks."""
    return _by_rank(groups, lambda group: None if group.wait_ns is None else group.wait_ns / steps_of(job, group.ranks))


def _by_rank(groups: Rows[GroupOp], ns: Callable[[GroupOp], float | None]) -> dict[int, float]:
    """The sum over the groups of each rank, of groups for which a time is known."""
    found: dict[int, float] = {}
    for group in groups:
        own = ns(group)
        if own is not None:
            for rank in group.ranks:
                found[rank] = found.get(rank, 0.0) + own
    return found


def exposed_comm(overlaps: Rows[StepOverlap], split: StepSplit) -> int | None:
    """Exposed communication of a step in ns; without a device, that of the rank's typical step."""
    if split.compute_ns is not None or split.exposed_comm_ns is not None:
        return split.exposed_comm_ns
    rows = (row for row in overlaps if (row.rank, row.step) == (split.rank, split.step))
    parts = [part for row in rows for part in row.parts if part.component == "communication"]
    return sum(part.exposed_ns for part in parts) if parts else None


def exposed_loss(
    job: Job,
    overlaps: Rows[StepOverlap],
    groups: Rows[GroupOp],
    what: Message,
    limit: Limit,
    costs: Mapping[int, float],
) -> Spent | None:
    """The ranks on which `costs` exceed the limit; a cost counts at most up to the rank's exposed transfers."""
    most = exposed_by_rank(job, groups)
    return loss(
        job,
        what,
        limit,
        lambda split: (
            None
            if split.rank not in costs or (exposed := exposed_comm(overlaps, split)) is None
            else round(min(costs[split.rank], exposed, most.get(split.rank, float("inf"))))
        ),
    )


def bubble_of(pipelines: Rows[Pipeline], rank: int) -> int:
    """The time per step that a rank waits for other pipeline stages; 0 without a pipeline."""
    line = pipelines.only
    return next((stage.bubble_ns for stage in (line.stages if line else ()) if rank in stage.ranks), 0)
