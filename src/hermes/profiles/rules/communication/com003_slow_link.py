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

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import MEASURE_A_LINK
from hermes.model.comm_measures import GroupOp, LinkPair
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._comm import CHANCE, SLOWER, exposed_loss, is_slow
from hermes.profiles.rules._component import steps_of
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

FLOOR = NOISE
_MOST = 4


@rule("COM003", state="stable", fault=Fault.SLOW_LINK, cases=("COM-23", "COM-18", "COM-30"))
def slow_link(job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], links: Rows[LinkPair]) -> Iterator[Loss]:
    """One finding for each pair of ranks, both directions together; of the four that lose most."""
    pairs: dict[tuple[int, int, str], list[LinkPair]] = {}
    for link in links:
        if is_slow(link):
            pairs.setdefault((min(link.rank, link.peer), max(link.rank, link.peer), link.transport), []).append(link)
    made = [finding for pair, both in sorted(pairs.items()) if (finding := _of_pair(job, overlaps, groups, pair, both))]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]


def _of_pair(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], pair: tuple[int, int, str], both: list[LinkPair]
) -> Loss | None:
    one, other, transport = pair
    worst = max(both, key=lambda link: (link.excess_ns or 0, -link.rank))
    excess = (worst.excess_ns or 0) / steps_of(job, [worst.rank])
    # All members of a collective wait for its slowest link.
    members = {rank for group in groups if {one, other} & set(group.ranks) for rank in group.ranks}
    found = exposed_loss(
        job, overlaps, groups, "excess of the link", FLOOR, dict.fromkeys(members | {worst.rank}, excess)
    )
    if found is None:
        return None
    ratio = worst.ratio or 1.0
    name = f"{transport} link {one}-{other}"
    moved = [group for group in groups if worst.rank in group.ranks and group.transfer_ns]
    return Loss(
        message=f"The {transport} link between ranks {one} and {other} takes {ratio:.1f} times as long as its like",
        ranks=found.ranks,
        blames=(Blame(name, "link", worst.rank),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the link takes as long as its like"),
        confidence=confidence("COM003"),
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
                for link in both
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
        actions=(
            Action(
                title=f"Measure and repair the link between ranks {one} and {other}",
                do=MEASURE_A_LINK,
                verify="The pair reaches the speed of the other pairs.",
                risk="Maintenance of the node.",
                source="msprof-analyze, slow link",
            ),
        ),
    )
