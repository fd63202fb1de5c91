"""Finds many small collectives, each of which pays a fixed cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes.base.message import Name, Share, message, sentence
from hermes.base.units import duration
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import ANY, Fit
from hermes.model.comm_measures import GroupOp, LatencyFit
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._communication import exposed_loss
from hermes.profiles.rules._cost_by_rank import Spent, percents, steps_of
from hermes.profiles.rules._host import bound
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.20,
    unit="of the time of these operations is fixed",
    source="packet analysis of msprof-analyze: small packets above 20 % of all",
)
FLOOR = NOISE
SMALL = Limit(
    value=65_536,
    unit="ns, at 1 GB/s, for all bytes of an operation: then it is not small",
    source="1 GB/s is a tenth of the speed of data center links",
)
ONE = Limit(
    value=0.125,
    unit="of these operations is one of them: then they are few, as a loss and some counters",
    source="case COM-33",
)


@rule(
    "COM004",
    state="stable",
    fault=Fault.SMALL_COLLECTIVES,
    cases=("COM-01", "COM-09", "COM-10", "COM-25", "COM-33", "COM-40", "CMP-29", "COM-37"),
)
def small_collectives(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], fits: Rows[LatencyFit]
) -> Iterator[Loss]:
    """At most one finding, of all fits beyond the limit; if sizes are too alike to fit, of all small operations."""
    small = [group for group in groups if _each(job, group) > 1 / ONE.value and _light(group)]
    tried = (_by_fit(job, overlaps, groups, fits, small), _by_size(job, overlaps, groups, small))
    found = [one for one in tried if one]
    if found:
        yield max(found, key=lambda one: one.cost_ns)


def _by_fit(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], fits: Rows[LatencyFit], small: Sequence[GroupOp]
) -> Loss | None:
    # If all operations are small, a fit tells nothing more: its time for the bytes is noise.
    counted = {(group.op, group.group) for group in small}
    large = [
        fit
        for fit in fits
        if fit.fixed_share > LIMIT.value and not {(fit.op, group) for group in fit.groups} <= counted
    ]
    costs: dict[int, float] = {}
    for fit in large:
        for rank in _ranks(groups, fit):
            steps = job.steps.counts.get(rank, 0)
            if steps:
                costs[rank] = costs.get(rank, 0.0) + fit.fixed_total_ns / steps
    found = exposed_loss(job, overlaps, groups, COST, FLOOR, costs)
    if found is None:
        return None
    own = [fit for fit in large if found.worst.rank in _ranks(groups, fit)]
    steps = max(1, job.steps.counts.get(found.worst.rank, 1))
    first = max(own, key=lambda fit: (fit.fixed_total_ns, fit.op))
    return Loss(
        message=pay_fixed(collectives=f"{first.operations / steps:.0f}", share=percents(first.fixed_share)),
        ranks=found.ranks,
        blames=tuple(sorted({Blame(f"{fit.op} of {', '.join(fit.groups)}", "operation") for fit in own})),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, ONE_UNHIDDEN),
        confidence=confidence("COM004.fitted"),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=fixed_part(op=fit.op, groups=", ".join(fit.groups)),
                    value=round(fit.fixed_share, 4),
                    unit="of its time",
                    threshold=LIMIT.value,
                    where=f"{duration(fit.fixed_ns)} each, {fit.operations / steps:.0f} a step; the fit is off by "
                    f"{fit.error:.0%}",
                )
                for fit in own
            ),
        ),
        replay=tuple(sorted({f"comm:{fit.op}={1 - fit.fixed_share:.4g}" for fit in own})),
        actions=_TOGETHER,
    )


def _by_size(job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], small: Sequence[GroupOp]) -> Loss | None:
    """A finding of groups with many operations, all small: one operation would pay the fixed time once."""
    costs: dict[int, float] = {}
    for group in small:
        left = 1 - 1 / _each(job, group)
        for rank in group.ranks:
            # The waits go, too: if each operation begins late, a single one begins late only once.
            costs[rank] = costs.get(rank, 0.0) + (group.transfer_ns or 0) / steps_of(job, group.ranks) * left
    found = exposed_loss(job, overlaps, groups, COST_BY_SIZE, FLOOR, costs)
    return _of_small(job, small, found) if found else None


def _of_small(job: Job, small: Sequence[GroupOp], found: Spent) -> Loss:
    own = [group for group in small if found.worst.rank in group.ranks]
    first = max(own, key=lambda group: (group.transfer_ns or 0, group.group, group.op))
    return Loss(
        message=take(collectives=f"{_each(job, first):.0f}", share=percents(found.share)),
        ranks=found.ranks,
        blames=tuple(sorted({Blame(f"{group.op} of {group.group}", "operation") for group in own})),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, ONE_IN_PLACE),
        confidence=confidence("COM004"),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=bytes_of_one(op=group.op, group=group.group),
                    value=round((group.bytes or 0) / max(1, group.rows)),
                    unit="bytes",
                    threshold=SMALL.value,
                    where=f"{_each(job, group):.0f} a step, {group.transfer_median_ns or 0} ns each",
                )
                for group in own
            ),
        ),
        actions=_TOGETHER,
    )


def _each(job: Job, group: GroupOp) -> float:
    """The operations of a group in a step of one of its ranks."""
    return group.rows / steps_of(job, group.ranks)


def _light(group: GroupOp) -> bool:
    return bool(group.rows) and group.bytes is not None and group.bytes / group.rows <= SMALL.value


_TOGETHER = variants(
    "com004.put_together",
    {"_ddp": Fit(libraries=("ddp",), phase="training"), "_fsdp": Fit(libraries=("fsdp",), phase="training"), "": ANY},
    source="msprof-analyze, packet.yaml; PyTorch documentation of DistributedDataParallel",
    cases=("COM-01",),
)


def _ranks(groups: Rows[GroupOp], fit: LatencyFit) -> set[int]:
    if fit.members is not None:
        return set(fit.members)
    return {rank for group in groups if group.group in fit.groups for rank in group.ranks}


COST = sentence("com004.cost")
ONE_UNHIDDEN = sentence("com004.one_unhidden")
COST_BY_SIZE = sentence("com004.cost_by_size")
ONE_IN_PLACE = sentence("com004.one_in_place")


@message("com004.pay_fixed")
def pay_fixed(*, collectives: Name, share: Share) -> None:
    """Small collectives pay fixed costs, by a fit of their times."""


@message("com004.fixed_part")
def fixed_part(*, op: Name, groups: Name) -> None:
    """The fixed cost of one kind of collective."""


@message("com004.take")
def take(*, collectives: Name, share: Share) -> None:
    """Small collectives take time, by their sizes."""


@message("com004.bytes_of_one")
def bytes_of_one(*, op: Name, group: Name) -> None:
    """The size of one small collective."""
