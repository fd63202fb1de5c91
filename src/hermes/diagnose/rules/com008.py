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

from hermes.analyze.comm_measures import GroupOp
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._comm import exposed_loss, exposed_transfer, slow_link
from hermes.diagnose.rules._limits import DOUBT

LIMIT = Threshold(
    value=0.80,
    unit="of the link's speed is expected",
    source="bandwidth limit of msprof and of its advisor: 80 % of the standard",
)
FLOOR = DOUBT
_LEAST_BYTES = 1_000_000
"""Smaller operations are bound by their fixed cost, which is COM004's."""


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding, of all groups whose links are too slow."""
    # One slow link holds up all others of its groups: that is COM003's.
    held = {frozenset((link.rank, link.peer)) for link in measures.communication.links if slow_link(link)}
    slow = [
        group
        for group in measures.communication.groups
        if _slow(group) and not any(pair <= set(group.ranks) for pair in held)
    ]
    costs: dict[int, float] = {}
    for group in slow:
        beyond = (exposed_transfer(measures, group) or 0.0) * (1 - (group.of_link or 0.0) / LIMIT.value)
        for rank in group.ranks:
            costs[rank] = costs.get(rank, 0.0) + beyond
    found = exposed_loss(measures, "transfers beyond 80 % of the link's speed", FLOOR, costs)
    if found is None:
        return
    own = [group for group in slow if found.worst.rank in group.ranks]
    least = min(own, key=lambda group: (group.of_link or 0.0, group.op))
    yield Finding(
        code="COM008",
        layer="communication",
        cause="slow collectives",
        title=f"Collectives reach {least.of_link or 0.0:.0%} of their {least.transport or ''} links' speed".replace(
            "  ", " "
        ),
        ranks=found.ranks,
        blames=tuple(sorted({f"{group.op} of {group.group}" for group in own})),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: they reach 80 % of the speed of the link"),
        confidence=round(0.4 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"{group.op} of {group.group} over {group.transport or 'its links'}",
                    value=round(group.of_link or 0.0, 4),
                    unit="of the link's speed",
                    threshold=LIMIT.value,
                    where=f"{group.link_gb_per_s or 0.0:.1f} of {group.link_limit_gb_per_s or 0.0:.1f} GB/s, "
                    "from the last arrival",
                )
                for group in sorted(own, key=lambda group: (group.of_link or 0.0, group.op, group.group))[:3]
            ),
        ),
        # What the library would reach is not known, so nothing is replayed.
        within="COM001",
        actions=(
            Action(
                title="Let the library choose, with large buffers",
                do="unset HCCL_ALGO NCCL_ALGO NCCL_PROTO NCCL_P2P_DISABLE NCCL_SHM_DISABLE; export "
                "HCCL_BUFFSIZE=512 (MB, as large as "
                "the messages); compare with HCCL test or nccl-tests on the same ranks.",
                verify="The speed of the same operations rises in the next profile.",
                risk="Twice the buffer's memory for each communicator; a switch may have been set against a hang.",
                source="CANN documentation of HCCL_BUFFSIZE and HCCL_ALGO; NCCL documentation of environment variables",
            ),
        ),
    )


def _slow(group: GroupOp) -> bool:
    size = (group.bytes or 0) / max(1, group.operations)
    return group.of_link is not None and group.of_link < LIMIT.value and size >= _LEAST_BYTES and bool(group.ranks)


RULE = Rule(
    code="COM008",
    page=__doc__ or "",
    find=find,
    cases=("COM-24", "COM-26", "COM-27", "COM-28", "COM-29", "COM-16", "COM-31"),
)
