"""One link is slower than its like.

## What it detects

Transfers over one link take longer than transfers of the same size over the other links of the same kind in the same
step: in more sizes and steps than chance explains, or by half and more in all of them. That must cost more per step
than noise. A link never counts by its speed alone: waiting is not in it, stalls are left out.

## Why it costs you

A collective over several links ends with its slowest one, on all ranks.

## When it is not a problem

When the links differ by design (two hops instead of one); when what it delays is hidden behind compute.

## What to do

Measure that pair of devices alone, look at the port's error counters, and repair cable, port or switch.

## How to check

Profile the same step again: the link takes as long as its like, and exposed communication falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.comm_measures import LinkPair
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule
from hermes.diagnose.rules._comm import CHANCE, SLOWER, exposed_loss, slow_link
from hermes.diagnose.rules._component import steps_of
from hermes.diagnose.rules._limits import NOISE

FLOOR = NOISE
_MOST = 4


def find(measures: Measures) -> Iterator[Finding]:
    """One finding for each pair of ranks, both directions together; of the four that lose most."""
    pairs: dict[tuple[int, int, str], list[LinkPair]] = {}
    for link in measures.communication.links:
        if slow_link(link):
            pairs.setdefault((min(link.rank, link.peer), max(link.rank, link.peer), link.transport), []).append(link)
    made = [finding for pair, links in sorted(pairs.items()) if (finding := _of_pair(measures, pair, links))]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _of_pair(measures: Measures, pair: tuple[int, int, str], links: list[LinkPair]) -> Finding | None:
    one, other, transport = pair
    worst = max(links, key=lambda link: (link.excess_ns or 0, -link.rank))
    excess = (worst.excess_ns or 0) / steps_of(measures, [worst.rank])
    # All members of a collective wait for its slowest link.
    members = {
        rank for group in measures.communication.groups if {one, other} & set(group.ranks) for rank in group.ranks
    }
    found = exposed_loss(measures, "excess of the link", FLOOR, dict.fromkeys(members | {worst.rank}, excess))
    if found is None:
        return None
    ratio = worst.ratio or 1.0
    name = f"{transport} link {one}-{other}"
    moved = [group for group in measures.communication.groups if worst.rank in group.ranks and group.transfer_ns]
    return Finding(
        code="COM003",
        layer="communication",
        cause="slow link",
        title=f"The {transport} link between ranks {one} and {other} takes {ratio:.1f} times as long as its like",
        ranks=found.ranks,
        blames=(name,),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the link takes as long as its like"),
        confidence=round(0.9 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"time over that of its like, rank {link.rank} to rank {link.peer}",
                    value=round(link.ratio or 0.0, 4),
                    unit="times",
                    threshold=1 + SLOWER.value,
                    where=f"slower in {link.slower / max(1, link.compared):.0%} of sizes and steps, "
                    f"{link.gb_per_s:.1f} GB/s",
                )
                for link in links
            ),
            Evidence(
                what="chance that any link is slower so often when none is",
                value=round(worst.p_value if worst.p_value is not None else 1.0, 6),
                unit="of 1",
                threshold=CHANCE.value,
                where=f"{worst.compared} sizes and steps",
            ),
        ),
        replay=tuple(sorted({f"comm:{group.op}={1 / ratio:.4g}" for group in moved})),
        within="COM001",
        actions=(
            Action(
                title=f"Measure and repair the link between ranks {one} and {other}",
                do="Measure that pair alone (HCCL test or nccl-tests with two ranks); look at its errors with "
                "hccn_tool -i N -stat -g, npu-smi info -t topo or nvidia-smi nvlink -s -e; until it is mended, place "
                "heavy groups elsewhere.",
                verify="The pair reaches the speed of the other pairs.",
                risk="Maintenance of the node.",
                source="msprof-analyze, slow link",
            ),
        ),
    )


RULE = Rule(code="COM003", page=__doc__ or "", find=find, cases=("COM-23", "COM-18", "COM-30"))
