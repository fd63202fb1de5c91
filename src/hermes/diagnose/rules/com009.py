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

from hermes.analyze.comm_measures import LinkPair
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule
from hermes.diagnose.rules._comm import exposed_loss
from hermes.diagnose.rules._limits import NOISE

LIMIT = NOISE
SLOW = ("RDMA", "ROCE", "PCIE")
DIRECT = ("HCCS", "HCCS_SW", "NVLINK", "XGMI")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding, of all such pairs."""
    near = [link for link in measures.communication.links if link.same_host]
    direct = [link for link in near if link.transport.upper() in DIRECT and link.gb_per_s]
    wrong = [link for link in near if link.transport.upper() in SLOW and link.gb_per_s]
    if not direct or not wrong:
        return
    best = sum(link.bytes for link in direct) / max(1, sum(link.time_ns for link in direct))
    costs: dict[int, float] = {}
    for link in wrong:
        steps = measures.steps_of_rank.get(link.rank, 0)
        if steps and link.gb_per_s < best:
            # Links of a rank run at once: the slowest counts, not their sum.
            costs[link.rank] = max(costs.get(link.rank, 0.0), link.time_ns * (1 - link.gb_per_s / best) / steps)
    found = exposed_loss(measures, "transfers within a host beyond its direct links", LIMIT, costs)
    if found is None:
        return
    own = sorted(
        (link for link in wrong if link.rank in found.ranks), key=lambda link: (-link.time_ns, link.rank, link.peer)
    )
    used = ", ".join(sorted({link.transport for link in own}))
    yield Finding(
        code="COM009",
        layer="communication",
        cause="wrong transport",
        title=f"Ranks of one host talk over {used}, at {_speed(own) / best:.0%} of the speed of its direct links",
        ranks=found.ranks,
        blames=tuple(f"{link.transport} link {link.rank}-{link.peer}" for link in own[:8]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: they are as fast as the direct links of the host"),
        confidence=round(0.7 * measures.certainty, 2),
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
        within="COM001",
        actions=(
            Action(
                title="Let ranks of one host use its direct links",
                do="unset HCCL_INTRA_ROCE_ENABLE HCCL_INTRA_PCIE_ENABLE HCCL_INTER_HCCS_DISABLE "
                "NCCL_P2P_DISABLE; give the "
                "container all devices of the group; check npu-smi info -t topo or nvidia-smi topo -m.",
                verify="The transport of these pairs changes in the report's table of links.",
                risk="A switch may have been set against a fault: watch for hangs.",
                source="CANN documentation of HCCL_INTRA_ROCE_ENABLE; NCCL documentation of NCCL_P2P_DISABLE",
            ),
        ),
    )


def _speed(links: list[LinkPair]) -> float:
    return sum(link.bytes for link in links) / max(1, sum(link.time_ns for link in links))


RULE = Rule(code="COM009", page=__doc__ or "", find=find, cases=("COM-28", "COM-27", "COM-30"))
