"""Finds embedding tables with dense gradients: as large as the table, however few rows a lookup reads.

A lookup and its backward operator belong together if their rows are equally wide and their indices equally many.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hermes.knowledge.cost.tensors import elements_of, per_tensor, shape_of
from hermes.model.tensor_measures import DenseTable

LOOKUPS = ("aten::embedding", "aten::_embedding_bag")
BACKWARDS = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")


def dense_tables(rank: int, calls: pl.DataFrame) -> Iterator[DenseTable]:
    """One row for each size of a table; `calls` are the rows `name, shapes` of `LOOKUPS` and `BACKWARDS`."""
    read: dict[tuple[int, int], list[int]] = {}
    dense: set[tuple[int, int]] = set()
    for name, text in calls.select("name", "shapes").drop_nulls().iter_rows():
        first, count = _shapes(text)
        if name in LOOKUPS and len(first) == 2:
            read.setdefault((first[0], first[1]), []).append(count)
        elif name in BACKWARDS and first:
            dense.add((first[-1], count))
    for (rows, width), counts in sorted(read.items()):
        own = [count for count in counts if (width, count) in dense]
        if own:
            yield DenseTable(rank=rank, rows=rows, width=width, used=sum(own) / len(own))


def _shapes(text: str) -> tuple[tuple[int, ...], int]:
    """The shape of the first tensor, and the number of elements of the second."""
    first, second = [*per_tensor(text), ""][:2]
    return shape_of(first) or (), elements_of(second) if second else 1
