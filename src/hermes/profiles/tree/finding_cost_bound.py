"""Computes the upper bound of a finding's cost: the time of its ranks in its leaves."""

from __future__ import annotations

from dataclasses import replace

from hermes.model.finding import Loss
from hermes.model.job import Job
from hermes.model.leaf import Leaf

_WAITS = frozenset({Leaf.WAIT, Leaf.COMMUNICATION})


def most_ns(job: Job, finding: Loss) -> int | None:
    """The largest time of a rank in the finding's leaves, in ns per step; None for waits and risks."""
    if finding.about is Leaf.WAIT or finding.awaited or finding.endangers:
        return None
    rooms = (job.room_ns(rank, finding.explains) for rank in finding.ranks or job.spent)
    return max((room for room in rooms if room is not None), default=None)


def bound_finding(job: Job, finding: Loss) -> Loss:
    """The finding with cost and gain limited to the time of its leaves, and with its share of the tree's step."""
    most = most_ns(job, finding)
    if most is None:
        return finding
    cost = min(finding.cost_ns, most)
    step = max((job.lengths.get(rank, 0) for rank in finding.ranks or job.lengths), default=0)
    share = finding.share if finding.gain.before or not step else min(cost / step, 1.0)
    gain = replace(
        finding.gain, low_ns=min(finding.gain.low_ns, most), high_ns=min(finding.gain.high_ns, most),
        middle_ns=None if finding.gain.middle_ns is None else min(finding.gain.middle_ns, most),
    )  # fmt: skip
    return replace(finding, cost_ns=cost, share=share, gain=gain, room_ns=most + _waits_ns(job, finding))


def _waits_ns(job: Job, finding: Loss) -> int:
    """The waits of several ranks for each other, in ns, which a fix on all of them may also save."""
    ranks = finding.ranks or tuple(job.spent)
    if len(ranks) < 2:
        return 0
    return max((job.room_ns(rank, _WAITS) or 0 for rank in ranks), default=0)
