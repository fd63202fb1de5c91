"""Rows of two matrices that are spread out over all their pairs: n x 1 x d beside 1 x m x d makes n x m x d."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

import polars as pl

from hermes.analyze.tensor_measures import RankShape
from hermes.cost.tensors import shape_of

COSINE = "aten::cosine_similarity"
EXPAND = "aten::expand"
LEAST_ROWS = 8
"""Fewer rows are hardly compared with each other: they are a few scales, heads or tokens."""
_MOST_COMBINED = 2_000

Shape = tuple[int, ...]


def spread(first: Shape, second: Shape) -> Shape | None:
    """All pairs of rows of two tensors, as broadcasting makes them; None where it does not."""
    axes = max(len(first), len(second))
    if axes < 3:
        return None
    one, other = ((1,) * (axes - len(shape)) + shape for shape in (first, second))
    ahead, behind = sorted((one, other), key=lambda shape: shape[-3] == 1)
    (rows, single), (missing, others) = ahead[-3:-1], behind[-3:-1]
    if single != 1 or missing != 1 or min(rows, others) < LEAST_ROWS or ahead[-1] != behind[-1] or ahead[-1] < 2:
        return None
    leading = list(zip(ahead[:-3], behind[:-3], strict=True))
    if any(a != b and min(a, b) != 1 for a, b in leading):
        return None
    return (*(max(pair) for pair in leading), rows, others, ahead[-1])


def spread_by(shapes: str) -> Shape | None:
    """The same for the first two tensors of a call."""
    first, second = (shape_of(text) for text in [*shapes.split(";"), "", ""][:2])
    return spread(first, second) if first and second else None


def spread_pairs(rank: int, calls: pl.DataFrame) -> Iterator[RankShape]:
    """What cosines of pairs and expanded tensors are spread to; `calls` are the rows `name, shapes` of these at least.

    Only a pair of expanded tensors is told, not whether an operator takes both.
    """
    rows = calls.drop_nulls("shapes").unique(("name", "shapes")).sort("name", "shapes")
    found = {spread_by(text) for text in rows.filter(pl.col("name") == COSINE)["shapes"]}
    texts = [text.split(";")[0] for text in rows.filter(pl.col("name") == EXPAND)["shapes"]]
    shapes = [shape for text in dict.fromkeys(texts) if (shape := shape_of(text)) and len(shape) >= 3]
    ahead = [shape for shape in shapes if shape[-2] == 1 and shape[-3] >= LEAST_ROWS]
    behind = [shape for shape in shapes if shape[-3] == 1 and shape[-2] >= LEAST_ROWS]
    found.update(spread(first, second) for first, second in islice(product(ahead, behind), _MOST_COMBINED))
    for shape in sorted(one for one in found if one is not None):
        yield RankShape(rank=rank, shape=",".join(map(str, shape)))
