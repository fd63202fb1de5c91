"""Finds operators whose inputs have different memory orders, and their extra time over equal orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import polars as pl

from hermes.knowledge.cost.tensors import elements_of, per_tensor, shape_of
from hermes.knowledge.operators import operator_of
from hermes.model.tensor_measures import MixedLayouts

COLUMNS = ("name", "shapes", "dtypes", "strides", "self_ns", "kind")
_LEAST = 16_384
"""The number of elements below which a call costs more than reading its tensor: `docs/evidence/cmp006.md`."""
_ALIKE = 2
"""The largest factor between the numbers of elements of two calls that are compared."""


def mixed_layouts(rank: int, calls: pl.DataFrame, steps: int) -> Iterator[MixedLayouts]:
    """One row for each operator, shapes and types; `calls` are rows `name, shapes, dtypes, strides, self_ns`.

    Only elementwise operators are listed: operators that need an order copy first, and that copy is a call of its own.
    The time for equal orders is the operator's own time with agreeing inputs, else that of all others with as many
    large inputs of these types.
    """
    signature = ["name", "shapes", "dtypes", "strides"]
    groups = calls.drop_nulls("shapes").group_by(signature, maintain_order=True).agg(
        pl.len().alias("calls"), pl.col("self_ns").sum().alias("ns"), pl.col("self_ns").median().alias("median")
    )  # fmt: skip
    mixed: dict[tuple[str, str, str], tuple[int, int]] = {}
    agree: list[tuple[str, int, tuple[str, ...], float]] = []
    for name, shapes, dtypes, strides, count, ns, each in groups.iter_rows():
        size, kinds = _large(shapes, dtypes or "")
        if size < _LEAST or len(kinds) < 2 or operator_of(name).formula != "elementwise":
            continue
        if disagree(shapes, strides):
            before = mixed.get((name, shapes, dtypes), (0, 0))
            mixed[name, shapes, dtypes] = (before[0] + count, before[1] + ns)
        elif strides is None:
            agree.append((name.rstrip("_"), size, kinds, each / size))
    for (name, shapes, dtypes), (count, ns) in mixed.items():
        size, kinds = _large(shapes, dtypes or "")
        near = [row for row in agree if row[2] == kinds and size <= _ALIKE * row[1] and row[1] <= _ALIKE * size]
        own = [row for row in near if row[0] == name.rstrip("_")]
        if near:
            same = round(count * size * median(row[3] for row in own or near))
            yield MixedLayouts(
                rank=rank, operator=name, shapes=shapes, steps=steps, calls=count, ns=ns, beyond_ns=max(0, ns - same)
            )


def disagree(shapes: str, strides: str | None) -> bool:
    """Whether some of the largest inputs have another memory order than others; expanded inputs have no order."""
    orders = set()
    sizes, steps = per_tensor(shapes), per_tensor(strides)
    if strides is None or len(sizes) != len(steps):
        return False
    most = max(map(elements_of, sizes))
    for size, step in zip(sizes, steps, strict=True):
        shape, stride = shape_of(size) or (), shape_of(step) or ()
        if not shape or elements_of(size) < most or len(shape) != len(stride):
            continue
        axes = [axis for axis, count in enumerate(shape) if count > 1]
        if all(stride[axis] for axis in axes):
            orders.add((shape, tuple(sorted(axes, key=lambda axis: -stride[axis]))))
    return len(orders) > len({shape for shape, _ in orders})


def _large(shapes: str, dtypes: str) -> tuple[int, tuple[str, ...]]:
    """The elements of the largest input, and the types of all inputs of that size."""
    sizes: Sequence[int] = [elements_of(shape) for shape in per_tensor(shapes)]
    most = max(sizes)
    types = per_tensor(dtypes) if dtypes.count(";") == len(sizes) - 1 else [""] * len(sizes)
    return most, tuple(kind for size, kind in zip(sizes, types, strict=True) if size == most)
