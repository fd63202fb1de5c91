"""Operators that a compiler or a library has as one kernel run one after the other.

## What it detects

Named rows of kernels on a stream: convolution, batch norm and activation; a product, the sum with its bias and an
activation; casts around a norm; transpositions in a row. A bias is told by its shape, so that a residual sum is none.
Casts, changes of layout and dropout between the parts are said: they are what keeps a compiler from fusing. The rule
takes what all but the longest kernel of each row need, per step.

## Why it costs you

Each kernel writes its result to memory and the next one reads it back, and each is launched by itself.

## When it is not a problem

When the step is bound by the host or by communication: then kernels that are saved leave more free time. The rule is
silent where the device's vendor has no library of fused operators: there CMP002 speaks of a compiler. In training a
batch norm needs the statistics of the whole batch first, so that only compiled graphs fuse it.

## What to do

What the finding says for its pattern: the operator of the library that has the parts in it, or a compiled graph; and
keep what breaks the row out of it.

## How to check

Profile the same step again: the parts are gone, and the kernel in their place takes about as long as the longest was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hermes.knowledge.confidence import confidence
from hermes.knowledge.fusions import FUSIONS
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.profiles.measure.structure.affinity import Affinity
from hermes.profiles.measure.structure.sequences import Unfused
from hermes.profiles.rules._component import Spent, loss, steps_of
from hermes.profiles.rules._compute import of_device
from hermes.profiles.rules._host import bound
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.02,
    unit="of window",
    source="advisor of msprof-analyze: fusible operators from 1 % of the step on, of sums that count kernels twice",
)
TOLD_ELSEWHERE = ("attention", "rotary", "RMSNorm", "SwiGLU", "permuted", "reshaped")
"""Sequences of which CMP013 and CMP006 speak, which look at shapes as well."""
_BY_NAME = {one.name: one for one in FUSIONS}


@rule(
    "CMP030", state="preview", fault=Fault.MEMORY_BOUND_KERNELS, cases=("CMP-23", "CMP-35", "CMP-36", "CMP-22"),
)  # fmt: skip
def unfused_sequence(job: Job, rows: Rows[Unfused], calls: Rows[Affinity]) -> Iterator[Loss]:
    """One finding for each pattern that costs enough, the costliest first; kernels first, then calls.

    Calls count what rows of kernels that are named already cannot hold: theirs may be the same kernels.
    """
    if not of_device(job, tuple(job.steps.counts)).fused:
        # What fuses them elsewhere is a compiler, which CMP002 speaks of.
        return
    found = []
    for pattern in dict.fromkeys(row.pattern for row in rows):
        own = {row.rank: row for row in rows if row.pattern == pattern}
        lost = loss(
            job,
            "kernels beyond the longest of each row",
            LIMIT,
            lambda split, own=own: _per_step(job, own.get(split.rank)),  # type: ignore[misc]
        )
        if lost is not None:
            found.append((lost, own[lost.worst.rank]))
    for lost, row in sorted(found, key=lambda one: -one[0].cost_ns):
        yield _finding(job, lost, row)
    for name in dict.fromkeys(row.name for row in calls if not row.name.startswith(TOLD_ELSEWHERE)):
        yield from _of_calls(job, {row.rank: row for row in calls if row.name == name}, [row for _, row in found])


def _of_calls(job: Job, own: Mapping[int, Affinity], named: Sequence[Unfused]) -> Iterator[Loss]:
    told = sum(row.saved_ns for row in named)

    def cost(split: StepSplit) -> int | None:
        row = own.get(split.rank)
        return (
            None if row is None or row.saved_ns is None else max(0, row.saved_ns - told) // steps_of(job, (row.rank,))
        )

    lost = loss(job, "kernels beyond the longest of each row of calls", LIMIT, cost)
    if lost is None:
        return
    row = own[lost.worst.rank]
    yield Loss(
        message=f"{row.instead} would do what {row.calls_of} do one after the other: {lost.share:.0%} of the step",
        ranks=lost.ranks,
        blames=tuple(Blame(name, "operator") for name in dict.fromkeys(row.calls_of.split())),
        cost_ns=lost.cost_ns,
        share=lost.share,
        gain=bound(job, lost, "one kernel takes as long as the longest of them"),
        confidence=confidence("CMP030"),
        evidence=(
            *lost.evidence,
            Evidence(
                what=f"rows of {row.calls_of}", value=float(row.calls), unit="in the capture", threshold=None,
                where=f"rank {row.rank}",
            ),
        ),
        actions=(
            Action(
                title=f"Call {row.instead}",
                do=f"Replace {row.calls_of} by {row.instead}, as the library documents it.",
                verify="The calls no longer follow each other, and the kernel in their place is there.",
                risk="A fused kernel rounds in other places: check the loss.",
                source="msprof-analyze, timeline_fusion_ops.yaml",
            ),
        ),
    )  # fmt: skip


def _per_step(job: Job, row: Unfused | None) -> int | None:
    return None if row is None else row.saved_ns // steps_of(job, (row.rank,))


def _finding(job: Job, lost: Spent, row: Unfused) -> Loss:
    fusion = _BY_NAME[row.pattern]
    between = f", with {row.broken} between" if row.broken else ""
    title = (
        f"{row.pattern[0].upper()}{row.pattern[1:]} run as kernels of their own{between}: {lost.share:.0%} of the step"
    )
    return Loss(
        message=title,
        ranks=lost.ranks,
        blames=tuple(Blame(name, "operator") for name in dict.fromkeys(row.operators.split())),
        cost_ns=lost.cost_ns,
        share=lost.share,
        gain=bound(job, lost, "one kernel takes as long as the longest of them"),
        confidence=confidence("CMP030"),
        evidence=(
            *lost.evidence,
            Evidence(what=f"rows of {row.operators}", value=float(row.calls), unit="in the capture", threshold=None,
                     where=f"rank {row.rank}"),
            Evidence(what="their kernels", value=float(row.ns), unit="ns", threshold=None, where=f"rank {row.rank}"),
        ),
        actions=(
            Action(
                title=f"Fuse {row.pattern}",
                do=fusion.do,
                verify=f"{row.operators} no longer follow each other in the table of kernels.",
                risk="A fused kernel rounds in other places: check the loss.",
                source=fusion.source,
            ),
        ),
    )  # fmt: skip
