"""Puts a finding under the leaf that it costs; bounds its cost by that leaf, and its gain by all that it explains."""

from __future__ import annotations

from dataclasses import replace

from hermes.model.finding import Loss
from hermes.model.job import Job
from hermes.model.leaf import Leaf
from hermes.profiles.tree.leaf_kinds import PART, WORK

_WAITS = frozenset({Leaf.WAIT, Leaf.COMMUNICATION})


def most_ns(job: Job, finding: Loss) -> int | None:
    """The largest time of a rank in the finding's leaves, in ns per step; None for waits and risks."""
    if finding.about is Leaf.WAIT or finding.awaited or finding.endangers:
        return None
    rooms = (job.room_ns(rank, finding.explains) for rank in finding.ranks or job.spent)
    return max((room for room in rooms if room is not None), default=None)


def leaf_of(job: Job, finding: Loss) -> tuple[Leaf, int] | None:
    """The leaf that a finding costs, and the most that it can cost in ns per step; None for waits and risks.

    It is the leaf of the finding's fault, unless its ranks spend less than a tenth of the cost there: then the leaf
    among those that the fault explains in which they spend most. The most is the largest time of a rank in that leaf;
    work of the device may lie in several leaves, and their sum counts. No fault costs a wait of ranks for each other.
    """
    if most_ns(job, finding) is None or not isinstance(finding.about, Leaf):
        return None
    # A bubble of a pipeline is a wait of stages for each other.
    explains = finding.explains - ({Leaf.WAIT} if finding.about is not Leaf.PIPELINE_BUBBLE else set())
    times = {leaf: _most(job, finding, frozenset({leaf})) for leaf in sorted(explains)}
    about = finding.about
    if times.get(about, 0) < PART * finding.cost_ns:
        about = max(times, key=lambda leaf: (times[leaf], leaf is about), default=about)
    return about, _most(job, finding, explains) if about in WORK else times.get(about, 0)


def _most(job: Job, finding: Loss, leaves: frozenset[Leaf]) -> int:
    """The largest time of a finding's rank in these leaves, in ns per step."""
    return max((job.room_ns(rank, leaves) or 0 for rank in finding.ranks or job.spent), default=0)


def bound_finding(job: Job, finding: Loss) -> Loss:
    """The finding under the leaf that it costs, with its share of the tree's step.

    The cost is limited to the time of that leaf, the gain to the time of all leaves that the finding explains.
    """
    most, leaf = most_ns(job, finding), leaf_of(job, finding)
    if most is None or leaf is None:
        return finding
    about, own = leaf
    cost = min(finding.cost_ns, own)
    step = max((job.lengths.get(rank, 0) for rank in finding.ranks or job.lengths), default=0)
    share = finding.share if finding.gain.before or not step else min(cost / step, 1.0)
    gain = replace(
        finding.gain, low_ns=min(finding.gain.low_ns, most), high_ns=min(finding.gain.high_ns, most),
        middle_ns=None if finding.gain.middle_ns is None else min(finding.gain.middle_ns, most),
    )  # fmt: skip
    return replace(finding, about=about, cost_ns=cost, share=share, gain=gain, room_ns=most + _waits_ns(job, finding))


def _waits_ns(job: Job, finding: Loss) -> int:
    """The waits of several ranks for each other, in ns, which a fix on all of them may also save."""
    ranks = finding.ranks or tuple(job.spent)
    if len(ranks) < 2:
        return 0
    return max((job.room_ns(rank, _WAITS) or 0 for rank in ranks), default=0)
