"""Finds single transfers that stall for many times their usual length."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Rank, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import CHECK_NETWORK_PORT
from hermes.model.comm_measures import GroupOp, Stall
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, FindingMoment, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = NOISE
_MOST = 4
_TIMEOUT_NS = 4_000_000_000
"""The advisor of msprof-analyze takes this time for a retransmission of RDMA; the timeout is 4.096 us * 2^20."""


@rule("COM008", state="stable", fault=Fault.STALLED_TRANSFERS, cases=("COM-15", "COM-16", "COM-17", "COM-39"))
def stalled_transfers(job: Job, groups: Rows[GroupOp], transfer_stalls: Rows[Stall]) -> Iterator[Loss]:
    """A finding for each rank and transport with stalled transfers, at most the four that lose most."""
    made = [finding for stall in transfer_stalls if (finding := _of_stall(job, groups, stall))]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _of_stall(job: Job, groups: Rows[GroupOp], stall: Stall) -> Loss | None:
    mean = _exposed(job)
    hit = {rank for group in groups if stall.rank is None or stall.rank in group.ranks for rank in group.ranks}
    steps = job.steps.counts
    most = max(steps.values(), default=1)
    each = stall.excess_ns / max(1, steps.get(stall.rank, most) if stall.rank is not None else most)
    found = loss(
        job,
        COST_OF_STALLS,
        LIMIT,
        lambda split: round(min(each, mean[split.rank])) if split.rank in hit and split.rank in mean else None,
    )
    if found is None:
        return None
    again = AGAIN if stall.longest_ns >= _TIMEOUT_NS else None
    return Loss(
        message=stalled(what=stall.what, rank=stall.rank, share=percents(found.share), again=again)
        if stall.rank is not None
        else stalled_collectives(what=stall.what, share=percents(found.share), again=again),
        ranks=found.ranks,
        blames=(
            Blame(f"rank {stall.rank} {stall.what}", "link", stall.rank)
            if stall.rank is not None
            else Blame(stall.what, "link"),
        ),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AS_USUAL)),
        confidence=confidence(
            "COM008.stalled_transfers" if stall.rank is not None else "COM008.stalled_transfers_no_rank"
        ),
        evidence=(
            *found.evidence,
            Evidence(
                what=LONGEST_STALL,
                value=float(stall.longest_ns),
                unit="ns",
                threshold=None,
                where=f"at {stall.longest_at_ns} ns "
                f"({job.inputs.get(stall.rank, '') if stall.rank is not None else ''})",
                at=None
                if stall.rank is None
                else FindingMoment(rank=stall.rank, start_ns=stall.longest_at_ns, dur_ns=stall.longest_ns),
            ),
            Evidence(
                what=THAT_STALL,
                value=round(stall.stalled / max(1, stall.counted), 6),
                unit="of all of the kind",
                threshold=None,
                where=stall.what,
            ),
        ),
        replay=("comm:even",),
        actions=CHECK_NETWORK_PORT,
    )


def _exposed(job: Job) -> dict[int, float]:
    """Mean exposed communication of each rank over its steps, because a stall affects only some steps."""
    sums: dict[int, list[int]] = {}
    for split in job.steps.every:
        if split.exposed_comm_ns is not None:
            sums.setdefault(split.rank, []).append(split.exposed_comm_ns)
    return {rank: sum(values) / len(values) for rank, values in sums.items()}


COST_OF_STALLS = sentence("com008.cost_of_stalls")
AS_USUAL = sentence("com008.as_usual")
LONGEST_STALL = sentence("com008.longest_stall")
THAT_STALL = sentence("com008.that_stall")
AGAIN = sentence("com008.again")


@message("com008.stalled")
def stalled(*, what: Name, rank: Rank, share: Share, again: Message | None = None) -> None:
    """Transfers of one rank stalled."""


@message("com008.stalled_collectives")
def stalled_collectives(*, what: Name, share: Share, again: Message | None = None) -> None:
    """Collectives stalled, with no known rank."""
