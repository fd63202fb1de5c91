"""Many small collectives pay a fixed cost each.

## What it detects

Over the sizes of an operation among the same ranks, its time is a fixed part and a part by size. The rule takes the
fixed part of all of them per step, where it is more than a fifth of their time, and no more than what nothing hides.
Operations of 64 KB and less, whose sizes are too alike to tell, count whole, but for one, from eight a step on.
On a job without a device, where Python's frames are recorded, it is the host's time in their calls, but for one of them
and for what a rank is late on the whole.

## Why it costs you

Each collective costs a start on every rank and a round of notifications, however few bytes it moves. Thirty-two small
ones pay that 32 times.

## When it is not a problem

A loss or a counter that is reduced once a step; small operations that are hidden behind compute.

## What to do

Put small operations together: larger gradient buckets, accumulation, one reduction of stacked counters, coarser
wrapping of FSDP.

## How to check

Profile the same step again: fewer operations move the same bytes, and exposed communication falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hermes.analyze.comm_measures import GroupOp, LatencyFit
from hermes.diagnose.finding import Action, Evidence, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._comm import exposed_loss
from hermes.diagnose.rules._component import Loss, loss, steps_of
from hermes.diagnose.rules._host import before_of, bound, event_cost, events_of, has_device
from hermes.diagnose.rules._limits import NOISE
from hermes.knowledge.host_work import COLLECTIVES

LIMIT = Threshold(
    value=0.20,
    unit="of the time of these operations is fixed",
    source="packet analysis of msprof-analyze: small packets above 20 % of all",
)
FLOOR = NOISE
SMALL = Threshold(
    value=65_536,
    unit="ns, at 1 GB/s, for all bytes of an operation: then it is not small",
    source="1 GB/s is a tenth of what links of data centres give",
)
ONE = Threshold(
    value=0.125,
    unit="of these operations is one of them: then they are few, as a loss and some counters",
    source="case COM-33",
)


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding, of all fits beyond the limit; where sizes are too alike to fit, of all small operations."""
    small = [
        group for group in measures.communication.groups if _each(measures, group) > 1 / ONE.value and _light(group)
    ]
    tried = (_by_calls(measures, small), _by_fit(measures, small), _by_size(measures, small))
    found = [one for one in tried if one]
    if found:
        yield max(found, key=lambda one: one.cost_ns)


def _by_fit(measures: Measures, small: Sequence[GroupOp]) -> Finding | None:
    # Of operations that are all small no fit tells more: what it takes for the time of their bytes is noise.
    counted = {(group.op, group.group) for group in small}
    fits = [
        fit
        for fit in measures.communication.fits
        if fit.fixed_share > LIMIT.value and not {(fit.op, group) for group in fit.groups} <= counted
    ]
    costs: dict[int, float] = {}
    for fit in fits:
        for rank in _ranks(measures, fit):
            steps = measures.steps_of_rank.get(rank, 0)
            if steps:
                costs[rank] = costs.get(rank, 0.0) + fit.fixed_total_ns / steps
    found = exposed_loss(measures, "fixed cost of collectives", FLOOR, costs)
    if found is None:
        return None
    own = [fit for fit in fits if found.worst.rank in _ranks(measures, fit)]
    steps = max(1, measures.steps_of_rank.get(found.worst.rank, 1))
    first = max(own, key=lambda fit: (fit.fixed_total_ns, fit.op))
    return Finding(
        code="COM004",
        layer="communication",
        cause="small collectives",
        title=f"{first.operations / steps:.0f} small collectives a step pay {first.fixed_share:.0%} of their time as "
        "fixed cost",
        ranks=found.ranks,
        blames=tuple(sorted({f"{fit.op} of {', '.join(fit.groups)}" for fit in own})),
        cost_ns=found.cost_ns,
        calls=_late_calls(measures, found),
        share=found.share,
        gain=bound(measures, found, "one operation in place of all, and none of it hidden"),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"fixed part of {fit.op} ({', '.join(fit.groups)})",
                    value=round(fit.fixed_share, 4),
                    unit="of its time",
                    threshold=LIMIT.value,
                    where=f"{fit.fixed_ns} ns each, {fit.operations / steps:.0f} a step; the fit is off by "
                    f"{fit.error:.0%}",
                )
                for fit in own
            ),
        ),
        replay=tuple(sorted({f"comm:{fit.op}={1 - fit.fixed_share:.4g}" for fit in own})),
        within="COM001",
        actions=(_TOGETHER,),
    )


def _by_size(measures: Measures, small: Sequence[GroupOp]) -> Finding | None:
    """Groups whose operations are all small and many: all of their time is start and end, and one operation has one."""
    costs: dict[int, float] = {}
    for group in small:
        left = 1 - 1 / _each(measures, group)
        for rank in group.ranks:
            # The waits go, too: where each operation begins late, one begins late once.
            costs[rank] = costs.get(rank, 0.0) + (group.transfer_ns or 0) / steps_of(measures, group.ranks) * left
    found = exposed_loss(measures, "time of small collectives but one", FLOOR, costs)
    return replace(_of_small(measures, small, found), calls=_late_calls(measures, found)) if found else None


def _by_calls(measures: Measures, small: Sequence[GroupOp]) -> Finding | None:
    """The same by the host's time in the calls, which hold what Python and the wait for an answer add."""
    found = loss(
        measures, "calls of small collectives but one", FLOOR, lambda split: _called(measures, split.rank, small)
    )
    return replace(_of_small(measures, small, found), calls=_held(measures, found, small)) if found else None


def _held(measures: Measures, found: Loss, small: Sequence[GroupOp]) -> float | None:
    """Recorded calls a step that lengthen those of small collectives but one; None where they are not told.

    The rank's own lie within them. It waits there for others, too, whose calls are lengthened as all of its step is:
    how much of it is waiting is not known, and the middle of both is taken.
    """
    rank = found.worst.rank
    row, before = events_of(measures, rank, COLLECTIVES), before_of(measures, rank)
    inside = row.recorded_a_step if row else None
    if inside is None or before is None:
        return None
    return (inside * _part(measures, rank, small) + before.calls * found.share) / 2


def _late_calls(measures: Measures, found: Loss) -> float | None:
    """The same of collectives that the host does not call itself: it only waits for others there."""
    before = None if has_device(measures, found.worst.rank) else before_of(measures, found.worst.rank)
    return None if before is None else before.calls * found.share / 2


def _called(measures: Measures, rank: int, small: Sequence[GroupOp]) -> int | None:
    """Nanoseconds a step of a rank in calls of small collectives but one; None with a device, or without calls."""
    called = None if has_device(measures, rank) else event_cost(measures, rank, COLLECTIVES)
    share = _part(measures, rank, small)
    return round(max(0, called - _late(measures, rank)) * share) if called is not None and share else None


def _part(measures: Measures, rank: int, small: Sequence[GroupOp]) -> float:
    """The share of small operations but one in the time of all collectives of a rank."""
    every = sum(group.transfer_ns or 0 for group in measures.communication.groups if rank in group.ranks)
    own = [group for group in small if rank in group.ranks]
    return sum((group.transfer_ns or 0) * (1 - 1 / _each(measures, group)) for group in own) / every if every else 0.0


def _late(measures: Measures, rank: int) -> int:
    """How long a rank waits a step for one that is late on the whole: one collective waits as long as many.

    Where the two wait for each other by turns, that is what many collectives cost.
    """
    waits = {(wait.rank, wait.peer): measures.waited_per_step(wait) for wait in measures.waits}
    return max((0, *(ns - waits.get((peer, own), 0) for (own, peer), ns in waits.items() if own == rank)))


def _of_small(measures: Measures, small: Sequence[GroupOp], found: Loss) -> Finding:
    own = [group for group in small if found.worst.rank in group.ranks]
    first = max(own, key=lambda group: (group.transfer_ns or 0, group.group, group.op))
    return Finding(
        code="COM004",
        layer="communication",
        cause="small collectives",
        title=f"{_each(measures, first):.0f} small collectives a step take {found.share:.0%} of it, and one could do",
        ranks=found.ranks,
        blames=tuple(sorted({f"{group.op} of {group.group}" for group in own})),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(measures, found, "one operation in place of all"),
        confidence=round(0.8 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"bytes of one {group.op} ({group.group})",
                    value=round((group.bytes or 0) / max(1, group.rows)),
                    unit="bytes",
                    threshold=SMALL.value,
                    where=f"{_each(measures, group):.0f} a step, {group.transfer_median_ns or 0} ns each",
                )
                for group in own
            ),
        ),
        within="COM001",
        actions=(_TOGETHER,),
    )


def _each(measures: Measures, group: GroupOp) -> float:
    """Operations of a group in a step of one of its ranks."""
    return group.rows / steps_of(measures, group.ranks)


def _light(group: GroupOp) -> bool:
    return bool(group.rows) and group.bytes is not None and group.bytes / group.rows <= SMALL.value


_TOGETHER = Action(
    title="Put small collectives together",
    do="DistributedDataParallel(bucket_cap_mb=100) or more; wrap FSDP by blocks, not by layers; "
    "accumulate gradients; stack counters and losses into one tensor before they are reduced.",
    verify="Operations per step fall, bytes per operation rise, exposed communication falls.",
    risk="Memory of larger buckets; the first operation starts later.",
    source="msprof-analyze, packet.yaml; PyTorch documentation of DistributedDataParallel",
)


def _ranks(measures: Measures, fit: LatencyFit) -> set[int]:
    if fit.members is not None:
        return set(fit.members)
    return {rank for group in measures.communication.groups if group.group in fit.groups for rank in group.ranks}


RULE = Rule(
    code="COM004",
    page=__doc__ or "",
    find=find,
    cases=("COM-01", "COM-09", "COM-10", "COM-25", "COM-33", "COM-40", "CMP-29", "COM-37"),
)
