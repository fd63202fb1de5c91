"""Ranks of one host talk over the network or over PCIe.

## What it detects

Transfers between two ranks of the same recorded host over RDMA, RoCE or PCIe, though the chip has direct links (HCCS)
or other pairs of the same host use them: what these transfers take longer than over the direct links, per step, as far
as nothing hides it.

## Why it costs you

Direct links are several times as fast as a network card or the PCIe bus, which such transfers also take from others.

## When it is not a problem

On boards without direct links between all devices, such as PCIe cards: there the pair has no other way.

## What to do

Unset the switches that turn direct links off, give each container all devices of a group, and place tensor-parallel
groups on devices that are linked.

## How to check

Profile the same step again: the transport of these pairs is HCCS (or NVLink), and their transfers take less time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import DIRECT_LINKS
from hermes.model.comm_measures import GroupOp, LinkPair
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._comm import exposed_loss
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = NOISE
SLOW = ("RDMA", "ROCE", "PCIE")
DIRECT = ("HCCS", "HCCS_SW", "NVLINK", "XGMI")


@rule("COM009", state="preview", fault=Fault.WRONG_TRANSPORT, cases=("COM-28", "COM-27", "COM-30"))
def network_inside_host(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], links: Rows[LinkPair]
) -> Iterator[Loss]:
    """At most one finding, of all such pairs."""
    near = [link for link in links if link.same_host]
    direct = [link for link in near if link.transport.upper() in DIRECT and link.gb_per_s]
    wrong = [link for link in near if link.transport.upper() in SLOW and link.gb_per_s]
    if not direct or not wrong:
        return
    best = sum(link.bytes for link in direct) / max(1, sum(link.time_ns for link in direct))
    costs: dict[int, float] = {}
    for link in wrong:
        steps = job.steps.counts.get(link.rank, 0)
        if steps and link.gb_per_s < best:
            # Links of a rank run at once: the slowest counts, not their sum.
            costs[link.rank] = max(costs.get(link.rank, 0.0), link.time_ns * (1 - link.gb_per_s / best) / steps)
    found = exposed_loss(job, overlaps, groups, "transfers within a host beyond its direct links", LIMIT, costs)
    if found is None:
        return
    own = sorted(
        (link for link in wrong if link.rank in found.ranks), key=lambda link: (-link.time_ns, link.rank, link.peer)
    )
    used = ", ".join(sorted({link.transport for link in own}))
    yield Loss(
        message=f"Ranks of one host talk over {used}, at {_speed(own) / best:.0%} of the speed of its direct links",
        ranks=found.ranks,
        blames=tuple(Blame(f"{link.transport} link {link.rank}-{link.peer}", "link", link.rank) for link in own[:8]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: they are as fast as the direct links of the host"),
        confidence=confidence("COM009"),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"speed of {link.transport} from rank {link.rank} to rank {link.peer}",
                    value=round(link.gb_per_s, 3),
                    unit="GB/s",
                    threshold=round(best, 3),
                    where=f"{link.bytes} bytes; the host's direct links reach the threshold",
                )
                for link in own[:3]
            ),
        ),
        actions=(DIRECT_LINKS,),
    )


def _speed(links: list[LinkPair]) -> float:
    return sum(link.bytes for link in links) / max(1, sum(link.time_ns for link in links))
