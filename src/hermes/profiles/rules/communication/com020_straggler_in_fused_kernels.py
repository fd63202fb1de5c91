"""Ranks wait for one rank inside kernels that compute and communicate at once.

## What it detects

A fused kernel (a product with its all-reduce, the dispatch of tokens to experts) counts as compute, so that no
collective shows the waiting in it. All ranks leave such a kernel together: the one that came last has the shortest
call. The rule takes what the calls of a rank are longer than the shortest of the same call, per step, and names the
rank that came last most often. It needs several ranks of a group.

## Why it costs you

The kernel of every other rank lasts until the last one has arrived: their cores are busy with waiting.

## When it is not a problem

Around checkpoints and in the first steps. A rank that comes last in few calls only is none: others come last as often.

## What to do

Look at the named rank: its clock, its tokens, its host; the findings that blame it say why it is late.

## How to check

Profile the same ranks again: the same call takes equally long on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.communication.fused import FusedOperator
from hermes.profiles.rules._component import loss, steps_of
from hermes.profiles.rules._host import bound
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: waiting above 5 % of the longest time",
)
MOSTLY = Limit(
    value=0.50,
    unit="of the calls must end with the same rank arriving last",
    source="Dixon's test and the vote of msprof-analyze's slow_rank: more calls than all others together",
)
_SHOWN = 4


@rule("COM020", state="preview", fault=Fault.STRAGGLER, cases=("COM-21", "PAR-05"))
def straggler_in_fused_kernels(job: Job, rows: Rows[FusedOperator]) -> Iterator[Loss]:
    """One finding for each rank that most calls of a fused operator wait for."""
    late: dict[int, list[FusedOperator]] = {}
    for row in rows:
        if len(row.ranks) > 1 and row.calls and row.last > MOSTLY.value * row.calls:
            late.setdefault(row.rank, []).append(row)
    for peer, own in sorted(late.items()):
        waiting = [
            row for row in rows for one in own
            if row.operator == one.operator and row.ranks == one.ranks and row.rank != peer
        ]  # fmt: skip
        found = _finding(job, peer, waiting)
        if found is not None:
            yield found


def _finding(job: Job, peer: int, waiting: list[FusedOperator]) -> Loss | None:
    sums: dict[int, int] = {}
    for row in waiting:
        sums[row.rank] = sums.get(row.rank, 0) + row.wait_low_ns
    lost = loss(
        job, "waiting in fused kernels", LIMIT,
        lambda split: sums[split.rank] // steps_of(job, (split.rank,)) if split.rank in sums else None,
    )  # fmt: skip
    if lost is None:
        return None
    names = sorted({row.operator for row in waiting})
    worst = sorted(waiting, key=lambda row: (-row.wait_low_ns, row.rank))[:_SHOWN]
    return Loss(
        message=f"{len(lost.ranks)} of {len(job.steps.counts)} ranks wait for rank {peer} inside "
        f"{' and '.join(names)}: {lost.share:.0%} of the step",
        ranks=lost.ranks,
        blames=(Blame.of_rank(peer),),
        cost_ns=lost.cost_ns,
        share=lost.share,
        gain=bound(job, lost, "the awaited rank arrives with the others"),
        confidence=confidence("COM020"),
        evidence=(
            *lost.evidence,
            *(
                Evidence(
                    what=f"rank {row.rank} waits in {row.operator}: {row.calls} calls, their sum",
                    value=float(row.wait_low_ns), unit="ns", threshold=None,
                    where="beyond the shortest of the same call on all ranks",
                )
                for row in worst
            ),
        ),
        replay=(f"rank:{peer}=median",),
        actions=(
            Action(
                title=f"Find out why rank {peer} is late",
                do=f"See the findings that blame rank {peer} (CMP008 its clock, CMP011 the same operators slower, "
                "PAR003 more tokens); compare its host calls and free time with another rank's.",
                verify=f"{names[0]} takes equally long on all ranks.",
                risk="none",
                source="tasks of the capture itself",
            ),
        ),
    )  # fmt: skip
