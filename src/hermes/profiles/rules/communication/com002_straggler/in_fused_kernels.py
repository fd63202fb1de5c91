"""Ranks wait for one rank inside kernels that compute and communicate at once."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.communication.fused_kernels import FusedOperator
from hermes.profiles.rules._cost_by_rank import loss, percents, steps_of
from hermes.profiles.rules._host import bound
from hermes.profiles.rules.communication.com002_straggler import _messages as say
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


@rule("COM002", state="preview", fault=Fault.STRAGGLER, cases=("COM-21", "PAR-05"))
def straggler_in_fused_kernels(job: Job, rows: Rows[FusedOperator]) -> Iterator[Loss]:
    """A finding for each rank that most calls of a fused operator wait for."""
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
        job, say.WAITING_FUSED_KERNELS, LIMIT,
        lambda split: sums[split.rank] // steps_of(job, (split.rank,)) if split.rank in sums else None,
    )  # fmt: skip
    if lost is None:
        return None
    names = sorted({row.operator for row in waiting})
    worst = sorted(waiting, key=lambda row: (-row.wait_low_ns, row.rank))[:_SHOWN]
    return Loss(
        message=say.ranks_wait_inside(
            waiting=str(len(lost.ranks)), every=str(len(job.steps.counts)), peer=peer, names=" and ".join(names),
            share=percents(lost.share),
        ),
        ranks=lost.ranks,
        blames=(Blame.of_rank(peer),),
        cost_ns=lost.cost_ns,
        share=lost.share,
        gain=bound(job, lost, say.ARRIVES),
        confidence=confidence("COM002.in_fused_kernels"),
        evidence=(
            *lost.evidence,
            *(
                Evidence(
                    what=say.waits_in(rank=row.rank, operator=row.operator, calls=str(row.calls)),
                    value=float(row.wait_low_ns), unit="ns", threshold=None,
                    where="beyond the shortest of the same call on all ranks",
                )
                for row in worst
            ),
        ),
        replay=(f"rank:{peer}=median",),
        actions=(
            Action(
                title=say.find_out(peer=peer),
                do=say.find_out_do(peer=peer),
                verify=say.find_out_verify(operator=names[0]),
                risk=NO_RISK,
                source="tasks of the capture itself",
            ),
        ),
    )  # fmt: skip
