"""What rules about compute share: steps beside their splits, operators per step, changes that stand for cures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import prod

from hermes.analyze.compute_measures import OperatorCost, StepCompute
from hermes.analyze.measures import StepSplit
from hermes.base.globs import literal
from hermes.cost.tensors import shape_of
from hermes.diagnose.finding import Evidence
from hermes.diagnose.rule import Measures, Threshold, by_share
from hermes.diagnose.rules._component import Loss, loss, place, steps_of
from hermes.knowledge.operators import MATRIX

_SHOWN = 3
_MOST_CHANGES = 8
_LONGEST_NAME = 60
_MAKING = ("elementwise", "copy", "cast", "transpose", "indexing", "softmax", "normalisation", "pooling", *MATRIX)
_FEW = (
    "index", "take", "nonzero", "masked_select", "unique", "_unique2", "bincount", "histc", "nll_loss_forward",
    "nll_loss2d_forward",
)  # fmt: skip
"""Of these the result is small, or its shape is in no input."""
_KEPT = 131_072
"""Below, malloc of glibc gives no block back to the system by itself: mallopt(3), M_MMAP_THRESHOLD."""


def lost(
    measures: Measures,
    what: str,
    part: Callable[[StepCompute], int | None],
    of_kernels: Threshold,
    of_window: Threshold,
) -> Loss | None:
    """The ranks on which a part of the time of the kernels is beyond both limits; no more than the step's compute."""
    steps = {(row.rank, row.step): row for row in measures.compute.steps}

    def cost(split: StepSplit) -> int | None:
        row = steps.get((split.rank, split.step))
        ns = part(row) if row is not None else None
        if row is None or ns is None or not row.kernel_ns or not by_share(of_kernels, ns / row.kernel_ns):
            return None
        return min(ns, _most(split))

    found = loss(measures, what, of_window, cost)
    if found is None:
        return None
    row = steps[found.worst.rank, found.worst.step]
    share = Evidence(
        what=what,
        value=round((part(row) or 0) / row.kernel_ns, 6),
        unit="of the time of all kernels",
        threshold=of_kernels.value,
        where=place(measures, found.worst),
    )
    return replace(found, evidence=(*found.evidence, share))


def _most(split: StepSplit) -> int:
    """What a part of compute can cost a step at most: its compute; without a device, where operators run, the step."""
    return split.window_ns if split.compute_ns is None else split.compute_ns


def per_step(measures: Measures, ns: Callable[[OperatorCost], float]) -> dict[int, float]:
    """Nanoseconds per step by rank of some part of the time of operators.

    Operators are summed over ranks and steps, and over what lies outside of the steps of a capture: each rank that has
    an operator gets the mean of them, and the steps their share of the time of all kernels.
    """
    every = sum(row.ns for row in measures.compute.operators)
    if not every:
        return {}
    inside = min(1.0, sum(step.kernel_ns for step in measures.compute.steps) / every)
    sums: dict[tuple[int, ...], float] = {}
    for row in measures.compute.operators:
        value = ns(row)
        if value:
            sums[row.ranks] = sums.get(row.ranks, 0.0) + value
    found: dict[int, float] = {}
    for ranks, value in sums.items():
        steps = sum(measures.steps_of_rank.get(rank, 0) for rank in ranks)
        for rank in ranks if steps else ():
            found[rank] = found.get(rank, 0.0) + value * inside / steps
    return found


def operators(measures: Measures, what: str, limit: Threshold, ns: Callable[[OperatorCost], float]) -> Loss | None:
    """The ranks on which a part of the time of operators is beyond a limit; no more than the step's compute."""
    by_rank = per_step(measures, ns)
    found = loss(
        measures,
        what,
        limit,
        lambda split: min(round(by_rank[split.rank]), _most(split)) if split.rank in by_rank else None,
    )
    if found is None:
        return None
    calls = per_step(measures, lambda row: row.calls * ns(row) / row.ns if row.ns else 0.0)
    return replace(found, calls=calls.get(found.worst.rank), fresh=fresh(measures, found.worst.rank, ns))


def fresh(measures: Measures, rank: int, ns: Callable[[OperatorCost], float], more: float = 0.0) -> float | None:
    """The part of the bytes of large new tensors that some part of the time of operators makes on a rank.

    `more` are bytes a step that it makes beside those that shapes of inputs tell. None where no operator is known to
    make any.
    """
    rows = [
        (row, new_bytes(row) * row.calls / steps_of(measures, row.ranks))
        for row in measures.compute.operators
        if rank in row.ranks
    ]
    every = sum(size for _, size in rows) + more
    return (sum(size * ns(row) / row.ns for row, size in rows if row.ns) + more) / every if every else None


def new_bytes(row: OperatorCost) -> int:
    """What a call of an operator writes to memory of its own, where that is so much that no heap keeps it.

    In bytes, as far as shapes tell: of operators that work on each number, as many numbers as their largest input has,
    of products and of what picks rows those of their result, of attention as many as queries have, and three times that
    backward. 0 for what works in place or makes views, and where the result is small beside its inputs, or no shape of
    it is told.
    """
    if row.kind not in _MAKING or row.operator.endswith("_"):
        return 0
    shapes = [shape for text in row.shapes.split(";") if (shape := shape_of(text))]
    tensors = 3 if row.kind == "attention backward" else 1
    if row.kind.startswith("attention"):
        elements = prod(shapes[0]) if shapes else 0
    elif row.kind in MATRIX:
        elements = prod(shapes[-2][:-1]) * shapes[-1][-1] if len(shapes) > 1 else 0
    elif row.kind == "indexing":
        elements = _picked(row.operator.rpartition("::")[2], shapes)
    else:
        elements = max(map(prod, shapes), default=0)
    size = elements * (8 if row.precision == "fp64" else 4)
    return tensors * size if size >= _KEPT else 0


def _picked(name: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """How many numbers an operator hands on that picks some by an index, its last input."""
    if name == "index_select":
        return prod(shapes[-1]) * prod(shapes[0][1:]) if len(shapes) > 1 else 0
    if name == "gather":
        return prod(shapes[-1]) if len(shapes) > 1 else 0
    return 0 if name in _FEW else max(map(prod, shapes), default=0)


def longest(measures: Measures, ns: Callable[[OperatorCost], float]) -> list[OperatorCost]:
    """The operators of which some part of the time is not 0, the largest part first."""
    rows = [(ns(row), row) for row in measures.compute.operators]
    return [row for value, row in sorted(rows, key=lambda pair: (-pair[0], _order(pair[1]))) if value > 0]


def _order(row: OperatorCost) -> tuple[str, str, str, str]:
    return row.operator, row.shapes, row.dtypes, row.chip or ""


def shown(rows: Sequence[OperatorCost], ns: Callable[[OperatorCost], float]) -> tuple[Evidence, ...]:
    """What the first operators lose, with their shapes; a share of all compute, which more steps do not change."""
    return tuple(
        Evidence(
            what=f"{short(row.operator)} {short(row.shapes)}".strip(),
            value=round(row.share * ns(row) / row.ns, 6) if row.ns else 0.0,
            unit="of the time of all kernels",
            threshold=None,
            where=" ".join(
                part for part in (f"{row.calls // max(1, len(row.ranks))} calls a rank,", short(row.dtypes)) if part
            ),
        )
        for row in rows[:_SHOWN]
    )


def short(name: str) -> str:
    """A name as far as it fits a line: C++ templates and lists of shapes are long."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def named(rows: Sequence[OperatorCost]) -> tuple[str, ...]:
    """The distinct names of the first operators."""
    return tuple(dict.fromkeys(short(row.operator) for row in rows if row.operator))[:_SHOWN]


def faster(measures: Measures, saved: Callable[[OperatorCost], float]) -> tuple[str, ...]:
    """Changes that leave operators, by name, the part of their time that is not saved; the largest eight.

    A kernel without its framework's operator goes by its symbol, which kernels of other operators share: it is left as
    it is, so that a replay gives too little rather than too much.
    """
    whole: dict[str, int] = {}
    less: dict[str, float] = {}
    for row in measures.compute.operators:
        whole[row.operator] = whole.get(row.operator, 0) + row.ns
        less[row.operator] = less.get(row.operator, 0.0) + saved(row)
    worst = sorted(
        (name for name in less if name and "<" not in name and less[name] > 0), key=lambda name: (-less[name], name)
    )
    return tuple(f"op:{literal(name)}={max(0.0, 1 - less[name] / whole[name]):.4g}" for name in worst[:_MOST_CHANGES])


def vendor(measures: Measures, ranks: Collection[int]) -> str:
    """Whose device the ranks run on, for advice that differs by it; empty where they differ or it is not known."""
    vendors = {measures.vendors.get(rank, "") for rank in ranks}
    return vendors.pop() if len(vendors) == 1 else ""
