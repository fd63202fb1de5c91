"""Finds copies that run while the device does nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import COPY_AHEAD, TORCH
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._host import fact
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="of window",
    source="system rule of TraceLens 0.1: copies between host and device above 5 % of the time",
)


@rule(
    "MEM001",
    state="stable",
    fault=Fault.EXPOSED_COPIES,
    cases=("IO-08", "IO-09", "IO-10", "IO-12", "MEM-15", "CPU-20", "COM-34"),
)
def exposed_copies(job: Job, overlaps: Rows[StepOverlap]) -> Iterator[Loss]:
    """A finding for all ranks beyond the limit, about the copies that one action would remove."""
    found = loss(job, COST, LIMIT, lambda split: split.copy_exposed_ns)
    if found is None:
        return
    rank = found.worst.rank
    directions = _directions(overlaps, rank)
    main = next(iter(directions), "")
    action = _ACTIONS.get(main)
    if action is None:
        return
    cured_ns = sum(ns for way, ns in directions.items() if _ACTIONS.get(way) is action)
    whole = not directions or cured_ns == sum(directions.values())
    cost_ns = found.cost_ns if whole else min(found.cost_ns, cured_ns)
    yield Loss(
        message=copying(share=percents(found.share)),
        ranks=found.ranks,
        blames=tuple(Blame(way, "copy") for way in list(directions)[:1]),
        cost_ns=cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=cost_ns, method=at_most(when=BESIDE_COMPUTE)),
        confidence=confidence("MEM001"),
        evidence=(
            *found.evidence,
            *(fact(job, rank, exposed_way(way=way), ns, "ns") for way, ns in directions.items() if ns),
        ),
        # The replay removes all copies: it tells the gain only if one action does so.
        replay=("copy:*=0",) if whole else (),
        actions=(action,),
    )


def _directions(overlaps: Rows[StepOverlap], rank: int) -> dict[str, int]:
    """Exposed copies of the rank's typical step by direction, the longest first."""
    parts = [part for row in overlaps if row.rank == rank for part in row.parts]
    found = {part.group: part.exposed_ns for part in parts if part.component == "copy" and part.group}
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


_RARELY = action("mem001.bring_back", source="PyTorch tutorial on pin_memory and non_blocking", fit=TORCH)
_WITHIN = action("mem001.copy_less", source="PyTorch documentation of tensor views", fit=TORCH)
_ACTIONS: Mapping[str, Action] = {
    "": COPY_AHEAD, "host to device": COPY_AHEAD, "on the device": _WITHIN, "device to host": _RARELY,
}  # fmt: skip
"""The action by the direction of the longest copies; none for a fill, which pinned memory does not help."""


COST = sentence("mem001.cost")
BESIDE_COMPUTE = sentence("mem001.beside_compute")


@message("mem001.copying")
def copying(*, share: Share) -> None:
    """Copies run while the device does nothing else."""


@message("mem001.exposed_way")
def exposed_way(*, way: Name) -> None:
    """The cost of copies of one direction."""
