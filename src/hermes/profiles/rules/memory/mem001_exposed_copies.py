"""Copies run while the device does nothing else.

## What it detects

The part of a step's window in which a copy or a fill of memory runs and neither compute nor communication does, as a
share of the window, on the step of median length of each rank.

## Why it costs you

The copy engines work beside the compute units. A copy that nothing runs beside delays the step by its whole length.

## When it is not a problem

For the first batch of a capture.

## What to do

Use pinned memory and non-blocking copies, and fetch the next batch while this one computes.

## How to check

Profile again: exposed copies per step must fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._host import fact
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
    """One finding for all ranks that are beyond the limit."""
    found = loss(job, "exposed copies", LIMIT, lambda split: split.copy_exposed_ns)
    if found is None:
        return
    rank = found.worst.rank
    directions = _directions(overlaps, rank)
    yield Loss(
        message=f"{found.share:.0%} of the step is copying with nothing else running",
        ranks=found.ranks,
        blames=tuple(Blame(way, "copy") for way in list(directions)[:1]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: every copy runs beside compute"),
        confidence=confidence("MEM001"),
        evidence=(
            *found.evidence,
            *(fact(job, rank, f"exposed copies, {way}", ns, "ns") for way, ns in directions.items() if ns),
        ),
        replay=("copy:*=0",),
        actions=_actions(next(iter(directions), "")),
    )


def _directions(overlaps: Rows[StepOverlap], rank: int) -> dict[str, int]:
    """Exposed copies of the rank's typical step by where they go, the longest first."""
    parts = [part for row in overlaps if row.rank == rank for part in row.parts]
    found = {part.group: part.exposed_ns for part in parts if part.component == "copy" and part.group}
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


_AHEAD = Action(
    title="Copy ahead, from pinned memory",
    do="DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True), one batch ahead on a stream of its own.",
    verify="Copies overlap compute in the next profile.",
    risk="Pinned memory cannot be swapped out: keep the number of batches in flight small.",
    source="PyTorch documentation of DataLoader and Tensor.to",
)
_RARELY = Action(
    title="Bring results back rarely, and all at once",
    do="Keep them on the device, put them together (torch.stack), and copy every 50 or 100 steps into pinned memory "
    "with tensor.to('cpu', non_blocking=True).",
    verify="Copies to the host are few, and overlap compute.",
    risk="Results are known some steps later; wait for the copy before you read it.",
    source="PyTorch tutorial on pin_memory and non_blocking",
)
_WITHIN = Action(
    title="Copy less within the device",
    do="Find the copies by stack (with_stack=True): write results where they are needed (out=, index_copy_, views of "
    "one tensor that is made once) in place of clone(), contiguous() and torch.cat of large tensors; torch.compile "
    "takes many into their neighbours.",
    verify="Copies on the device take less time in the next profile.",
    risk="A view is overwritten with what it shows.",
    source="PyTorch documentation of tensor views",
)
_ACTIONS: Mapping[str, Action] = {"on the device": _WITHIN, "device to host": _RARELY}


def _actions(direction: str) -> tuple[Action, ...]:
    """What to do about copies of the direction that takes most: no pinned memory helps one within the device."""
    return (_ACTIONS.get(direction, _AHEAD),)
