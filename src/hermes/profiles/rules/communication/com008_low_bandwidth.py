"""Collectives stay below what their links give.

## What it detects

Operations of at least a megabyte whose links, after the last arrival, reach less than 80 % of the speed that they are
built for: what their exposed transfers take beyond that, per step. Only for chips whose links are known.

## Why it costs you

Half of a link's speed doubles the transfer, on every rank of the group.

## When it is not a problem

Protocols take a part, and few algorithms use all links at once. When transfers are hidden behind compute nothing is
lost.

## What to do

Let the library choose its algorithm, give the communicator buffers as large as the messages, and look for the cause
that other findings name: small operations (COM004), one slow link (COM003), unaligned sizes (COM005), contention
(COM006).

## How to check

Run HCCL test or nccl-tests with the same ranks and sizes: where that is fast, it is the job; else it is the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import DEFAULT_ALGORITHMS
from hermes.model.comm_measures import GroupOp, LinkPair
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._comm import exposed_loss, exposed_transfer, is_slow
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.80,
    unit="of the link's speed is expected",
    source="bandwidth limit of msprof and of its advisor: 80 % of the standard",
)
FLOOR = DOUBT
_LEAST_BYTES = 1_000_000
"""Smaller operations are bound by their fixed cost, which is COM004's."""


@rule(
    "COM008",
    state="stable",
    fault=Fault.SLOW_COLLECTIVES,
    cases=("COM-24", "COM-26", "COM-27", "COM-28", "COM-29", "COM-16", "COM-31", "COM-38", "ENV-10"),
)
def low_bandwidth(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], links: Rows[LinkPair]
) -> Iterator[Loss]:
    """At most one finding, of all groups whose links are too slow."""
    # One slow link holds up all others of its groups: that is COM003's.
    slow_pairs = {frozenset((link.rank, link.peer)) for link in links if is_slow(link)}
    slow = [group for group in groups if _slow(group) and not any(pair <= set(group.ranks) for pair in slow_pairs)]
    costs: dict[int, float] = {}
    for group in slow:
        beyond = (exposed_transfer(job, group) or 0.0) * (1 - (group.of_link or 0.0) / LIMIT.value)
        for rank in group.ranks:
            costs[rank] = costs.get(rank, 0.0) + beyond
    found = exposed_loss(job, overlaps, groups, "transfers beyond 80 % of the link's speed", FLOOR, costs)
    if found is None:
        return
    own = [group for group in slow if found.worst.rank in group.ranks]
    least = min(own, key=lambda group: (group.of_link or 0.0, group.op))
    yield Loss(
        message=f"Collectives reach {least.of_link or 0.0:.0%} of their {least.transport or ''} links' speed".replace(
            "  ", " "
        ),
        ranks=found.ranks,
        blames=tuple(sorted({Blame(f"{group.op} of {group.group}", "operation") for group in own})),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: they reach 80 % of the speed of the link"),
        confidence=confidence("COM008"),
        assumed=True,
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"{group.op} of {group.group} over {group.transport or 'its links'}",
                    value=round(group.of_link or 0.0, 4),
                    unit="of the link's speed",
                    threshold=LIMIT.value,
                    where=f"{group.link_gb_per_s or 0.0:.1f} of {group.link_limit_gb_per_s or 0.0:.1f} GB/s, from "
                    "the last arrival",
                )
                for group in sorted(own, key=lambda group: (group.of_link or 0.0, group.op, group.group))[:3]
            ),
        ),
        # What the library would reach is not known, so nothing is replayed.
        actions=(DEFAULT_ALGORITHMS,),
    )


def _slow(group: GroupOp) -> bool:
    size = (group.bytes or 0) / max(1, group.operations)
    return group.of_link is not None and group.of_link < LIMIT.value and size >= _LEAST_BYTES and bool(group.ranks)
