"""Operators that a compiler or a library has as one kernel run one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.fusible_operators import FUSIONS
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.structure.fusible_calls import Affinity
from hermes.profiles.measure.structure.kernel_sequences import Unfused
from hermes.profiles.rules._compute import of_device
from hermes.profiles.rules._cost_by_rank import Spent, loss, percents, steps_of
from hermes.profiles.rules._host import bound
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.02,
    unit="of window",
    source="advisor of msprof-analyze: fusible operators from 1 % of the step on, of sums that count kernels twice",
)
TOLD_ELSEWHERE = ("attention", "rotary", "RMSNorm", "SwiGLU", "permuted", "reshaped")
"""Sequences that the finder of layers and rule CMP004 report, which check shapes as well."""
_BY_NAME = {one.name: one for one in FUSIONS}


@rule(
    "CMP002", state="preview", fault=Fault.MEMORY_BOUND_KERNELS, cases=("CMP-23", "CMP-35", "CMP-36", "CMP-22"),
)  # fmt: skip
def unfused_sequence(job: Job, rows: Rows[Unfused], calls: Rows[Affinity]) -> Iterator[Loss]:
    """A finding for each pattern that costs enough, the most expensive first; patterns of kernels first, then of calls.

    Calls count only beyond the kernels already named, because both may be the same kernels.
    """
    if not of_device(job, tuple(job.steps.counts)).fused:
        # Otherwise only a compiler fuses these, which the finder of elementwise kernels advises.
        return
    found = []
    for pattern in dict.fromkeys(row.pattern for row in rows):
        own = {row.rank: row for row in rows if row.pattern == pattern}
        lost = loss(
            job,
            COST_OF_ROWS,
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

    lost = loss(job, COST_OF_CALLS, LIMIT, cost)
    if lost is None:
        return
    row = own[lost.worst.rank]
    yield Loss(
        message=would_do(instead=row.instead, calls=row.calls_of, share=percents(lost.share)),
        ranks=lost.ranks,
        blames=tuple(Blame(name, "operator") for name in dict.fromkeys(row.calls_of.split())),
        cost_ns=lost.cost_ns,
        share=lost.share,
        gain=bound(job, lost, AS_LONGEST),
        confidence=confidence("CMP002.sequences"),
        evidence=(
            *lost.evidence,
            Evidence(
                what=rows_of(operators=row.calls_of), value=float(row.calls), unit="in the capture", threshold=None,
                where=f"rank {row.rank}",
            ),
        ),
        actions=(
            Action(
                title=call_it(instead=row.instead),
                do=call_it_do(calls=row.calls_of, instead=row.instead),
                verify=CALL_IT_VERIFY,
                risk=ROUNDS,
                source="msprof-analyze, timeline_fusion_ops.yaml",
            ),
        ),
    )  # fmt: skip


def _per_step(job: Job, row: Unfused | None) -> int | None:
    return None if row is None else row.saved_ns // steps_of(job, (row.rank,))


def _finding(job: Job, lost: Spent, row: Unfused) -> Loss:
    fusion = _BY_NAME[row.pattern]
    return Loss(
        message=own_kernels(
            pattern=f"{row.pattern[0].upper()}{row.pattern[1:]}", between=row.broken or None,
            share=percents(lost.share),
        ),
        ranks=lost.ranks,
        blames=tuple(Blame(name, "operator") for name in dict.fromkeys(row.operators.split())),
        cost_ns=lost.cost_ns,
        share=lost.share,
        gain=bound(job, lost, AS_LONGEST),
        confidence=confidence("CMP002.sequences"),
        evidence=(
            *lost.evidence,
            Evidence(what=rows_of(operators=row.operators), value=float(row.calls), unit="in the capture",
                     threshold=None, where=f"rank {row.rank}"),
            Evidence(what=THEIR_KERNELS, value=float(row.ns), unit="ns", threshold=None, where=f"rank {row.rank}"),
        ),
        actions=(
            Action(
                title=fuse(pattern=row.pattern),
                do=fusion.do,
                verify=fuse_verify(operators=row.operators),
                risk=ROUNDS,
                source=fusion.source,
                fit=fusion.fit,
            ),
        ),
    )  # fmt: skip


COST_OF_ROWS = sentence("cmp002.cost_of_rows")
COST_OF_CALLS = sentence("cmp002.cost_of_calls")
AS_LONGEST = sentence("cmp002.as_longest")
CALL_IT_VERIFY = sentence("cmp002.call_it_verify")
ROUNDS = sentence("cmp002.rounds")
THEIR_KERNELS = sentence("cmp002.their_kernels")


@message("cmp002.would_do")
def would_do(*, instead: Name, calls: Name, share: Share) -> None:
    """A library operator would replace a sequence of calls."""


@message("cmp002.rows_of")
def rows_of(*, operators: Name) -> None:
    """How often operators follow each other."""


@message("cmp002.own_kernels")
def own_kernels(*, pattern: Name, between: Name | None = None, share: Share) -> None:
    """A sequence of kernels could be one kernel; other operators may stand between."""


@message("cmp002.call_it")
def call_it(*, instead: Name) -> None:
    """To call a library operator in place of a sequence of calls."""


@message("cmp002.call_it_do")
def call_it_do(*, calls: Name, instead: Name) -> None:
    """How to call a library operator in place of a sequence of calls."""


@message("cmp002.fuse")
def fuse(*, pattern: Name) -> None:
    """To fuse a sequence of kernels."""


@message("cmp002.fuse_verify")
def fuse_verify(*, operators: Name) -> None:
    """How to see that a sequence of kernels is fused."""
