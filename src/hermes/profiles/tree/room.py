"""How much a finding can cost at most: what its ranks spend in the leaves that it explains."""

from __future__ import annotations

from dataclasses import replace

from hermes.model.finding import Loss
from hermes.model.job import Job
from hermes.model.leaf import Leaf


def most_ns(job: Job, finding: Loss) -> int | None:
    """Nanoseconds of a step of the rank with most of them; None for a wait, a risk, and without a device."""
    if finding.about is Leaf.WAIT or finding.endangers:
        return None
    rooms = (job.room_ns(rank, finding.explains) for rank in finding.ranks or job.spent)
    return max((room for room in rooms if room is not None), default=None)


def within(job: Job, finding: Loss) -> Loss:
    """The finding with a cost and a gain that its leaves have room for."""
    most = most_ns(job, finding)
    if most is None or finding.cost_ns <= most:
        return finding
    gain = replace(
        finding.gain, low_ns=min(finding.gain.low_ns, most), high_ns=min(finding.gain.high_ns, most),
        middle_ns=None if finding.gain.middle_ns is None else min(finding.gain.middle_ns, most),
    )  # fmt: skip
    return replace(finding, cost_ns=most, share=finding.share * most / finding.cost_ns, gain=gain)
