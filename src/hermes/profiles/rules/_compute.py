"""Costs that rules about compute share: time of operators per step, and replay changes that stand for cures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hermes.base.globs import literal_pattern
from hermes.base.message import Message
from hermes.knowledge.cost.tensors import shapes_of
from hermes.knowledge.vendor_traits import Traits, common_traits
from hermes.model.compute_measures import OTHERS, OperatorCost, StepCompute
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules._cost_by_rank import Spent, loss, place
from hermes.profiles.rules._host import mean_steps
from hermes.profiles.rules.evidence_messages import of_operator
from hermes.profiles.rules.rule import by_share

_SHOWN = 3
_MOST_CHANGES = 8
_LONGEST_NAME = 60
_SIZES = 8
"""Batches of varying length hardly ever have this many sizes in even steps, each equally often.

Of 32 lengths, a random choice of 8 is such a row once in a hundred thousand (58 of 10,518,300)."""
_MISSING = 0.125
"""The share of sizes for which a profiler may have lost a call."""
_PRODUCTS = ("aten::addmm", "aten::mm", "aten::linear")

Key = tuple[object, ...]


def lost(
    job: Job,
    computes: Rows[StepCompute],
    what: Message,
    part: Callable[[StepCompute], int | None],
    of_kernels: Limit,
    of_window: Limit,
) -> Spent | None:
    """The ranks on which a part of the kernels' time exceeds both limits; at most the step's compute counts."""
    steps = {(row.rank, row.step): row for row in computes}

    def cost(split: StepSplit) -> int | None:
        row = steps.get((split.rank, split.step))
        ns = part(row) if row is not None else None
        if row is None or ns is None or not row.kernel_ns or not by_share(of_kernels, ns / row.kernel_ns):
            return None
        return min(ns, _most(split, split.window_ns))

    found = loss(job, what, of_window, cost)
    if found is None:
        return None
    row = steps[found.worst.rank, found.worst.step]
    share = Evidence(
        what=what,
        value=round((part(row) or 0) / row.kernel_ns, 6),
        unit="of the time of all kernels",
        threshold=of_kernels.value,
        where=place(job, found.worst),
    )
    return replace(found, evidence=(*found.evidence, share))


def _most(split: StepSplit, step_ns: int) -> int:
    """The most that a part of compute can cost a step: its compute; without a device, where operators run, the step."""
    return step_ns if split.compute_ns is None else split.compute_ns


def per_step(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], ns: Callable[[OperatorCost], float]
) -> dict[int, float]:
    """Nanoseconds per step, for each rank, of a part of the time of operators.

    Operators are summed over ranks and steps, and over work outside of the steps of a capture. Each rank with an
    operator gets the mean of that sum, and the steps get their share of the time of all kernels.
    """
    every = sum(row.ns for row in ops)
    if not every:
        return {}
    inside = min(1.0, sum(step.kernel_ns for step in computes) / every)
    sums: dict[tuple[int, ...], float] = {}
    for row in ops:
        value = ns(row)
        if value:
            sums[row.ranks] = sums.get(row.ranks, 0.0) + value
    found: dict[int, float] = {}
    for ranks, value in sums.items():
        steps = sum(job.steps.counts.get(rank, 0) for rank in ranks)
        for rank in ranks if steps else ():
            found[rank] = found.get(rank, 0.0) + value * inside / steps
    return found


def operators(
    job: Job,
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    what: Message,
    limit: Limit,
    ns: Callable[[OperatorCost], float],
) -> Spent | None:
    """The ranks on which a part of the operators' time exceeds a limit; it counts at most up to the step's compute.

    The time of operators is a mean over the capture: without a device it is a share of the mean step.
    """
    by_rank, means = per_step(job, ops, computes, ns), mean_steps(job)

    def length(split: StepSplit) -> int:
        return means.get(split.rank, split.window_ns) if split.compute_ns is None else split.window_ns

    def cost(split: StepSplit) -> int | None:
        ns = by_rank.get(split.rank)
        return None if ns is None else min(round(ns), _most(split, length(split)))

    return loss(job, what, limit, cost, length)


def longest(ops: Rows[OperatorCost], ns: Callable[[OperatorCost], float]) -> list[OperatorCost]:
    """The operators with the given part of their time above 0, the largest part first."""
    rows = [(ns(row), row) for row in ops]
    return [row for value, row in sorted(rows, key=lambda pair: (-pair[0], _order(pair[1]))) if value > 0]


def _order(row: OperatorCost) -> tuple[str, str, str, str]:
    return row.operator, row.shapes, row.dtypes, row.chip or ""


def shown(rows: Sequence[OperatorCost], ns: Callable[[OperatorCost], float]) -> tuple[Evidence, ...]:
    """The loss and shapes of the first operators; a loss is a share of all compute, which more steps do not change."""
    return tuple(
        Evidence(
            what=of_operator(operator=short(row.operator), shapes=short(row.shapes) or None),
            value=round(row.share * ns(row) / row.ns, 6) if row.ns else 0.0,
            unit="of the time of all kernels",
            threshold=None,
            where=" ".join(
                part for part in (f"{row.calls // max(1, len(row.ranks))} calls a rank,", short(row.dtypes)) if part
            ),
        )
        for row in rows[:_SHOWN]
    )


def of_operators(
    job: Job, ops: Rows[OperatorCost], found: Spent, part: Callable[[OperatorCost], float], *, title: Message,
    gain: Gain, confidence: float, actions: tuple[Action, ...],
) -> Loss:  # fmt: skip
    """A finding about a part of the operators' time: the longest are blamed, and the replay removes that part."""
    worst = longest(ops, part)
    return Loss(
        message=title,
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=gain,
        confidence=confidence,
        evidence=(*found.evidence, *shown(worst, part)),
        replay=faster(ops, part),
        actions=actions,
    )


def new_parts(ops: Rows[OperatorCost]) -> Mapping[int, float]:
    """For each row of operators whose inputs grow with a product's inputs, the part of its input that is new."""
    groups: dict[Key, dict[int, list[OperatorCost]]] = {}
    for row in ops:
        if row.kind == "batched matmul":
            continue
        sizes = [shape for shape in shapes_of(row.shapes) if shape]
        for at, shape in enumerate(sizes):
            # The number of rows grows: the first axis of a matrix, the last but one of other tensors.
            axis = max(len(shape) - 2, 0)
            rest = tuple((*one[:axis], *one[axis + 1 :]) if place == at else one for place, one in enumerate(sizes))
            if len(shape) > 1:
                key = (row.ranks, row.operator, at, rest, row.calls)
                groups.setdefault(key, {}).setdefault(shape[axis], []).append(row)
    grown: dict[int, float] = {}
    for (_, operator, *_), rows in groups.items():
        each = _grows_by(sorted(rows)) if operator in _PRODUCTS and len(rows) >= _SIZES else 0
        if each:
            grown.update({id(row): each / length for length, own in rows.items() for row in own})
    return grown


def _grows_by(lengths: Sequence[int]) -> int:
    """How much each length exceeds the one before; 0 if that varies. A few incompletely recorded lengths are left out.

    The whole numbers in each step: the least difference between two of these.
    """
    steps = [after - before for before, after in pairwise(lengths)]
    each = min(steps)
    missing = sum(step // each - 1 for step in steps)
    return each if all(step % each == 0 for step in steps) and missing <= _MISSING * len(lengths) else 0


def short(name: str) -> str:
    """A name shortened to fit a line: C++ templates and lists of shapes are long."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def named(rows: Sequence[OperatorCost]) -> tuple[Blame, ...]:
    """The distinct names of the first operators, to blame."""
    told = [row.operator for row in rows if row.operator and not row.operator.startswith(OTHERS)]
    return tuple(dict.fromkeys(Blame(short(name), "operator") for name in told))[:_SHOWN]


def faster(ops: Rows[OperatorCost], saved: Callable[[OperatorCost], float]) -> tuple[str, ...]:
    """Replay changes that leave operators, by name, the share of their time that is not saved; the largest eight.

    A kernel without its framework's operator is named by its symbol, which kernels of other operators share. Such a
    kernel stays unchanged, so the replay predicts too little rather than too much.
    """
    whole: dict[str, int] = {}
    less: dict[str, float] = {}
    for row in ops:
        whole[row.operator] = whole.get(row.operator, 0) + row.ns
        less[row.operator] = less.get(row.operator, 0.0) + saved(row)
    worst = sorted(
        (name for name in less if name and "<" not in name and less[name] > 0), key=lambda name: (-less[name], name)
    )
    return tuple(
        f"op:{literal_pattern(name)}={max(0.0, 1 - less[name] / whole[name]):.4g}" for name in worst[:_MOST_CHANGES]
    )


def of_device(job: Job, ranks: Collection[int]) -> Traits:
    """The traits of the ranks' device, for advice that depends on them."""
    return common_traits(job.vendors.get(rank, "") for rank in ranks)
