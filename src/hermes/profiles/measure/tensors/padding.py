"""Measures padding in embedding lookups: tokens before and after `constant_pad_nd` or `pad_sequence`.

A padded tensor and an embedding belong together if their first axis (samples of the batch) is equally long. Captures of
Hermes also inspected some batches that a loader handed out: padding by collators is in no operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import polars as pl

from hermes.knowledge.cost.tensors import per_tensor, shape_of
from hermes.model.tensor_measures import Padding

PADS = ("aten::constant_pad_nd", "aten::pad_sequence")
LOOKUP = "aten::embedding"
_WHOLE = ("long", "int", "TensorList")


def padding(rank: int, calls: pl.DataFrame, told: Mapping[str, int] = MappingProxyType({})) -> Iterator[Padding]:
    """One row for each size of a batch; `calls` are the rows `name, shapes, dtypes` of `PADS` and `LOOKUP`.

    `told` is what a capture records about batches: `batches`, `batch_samples`, `batch_tokens`, `batch_padding`.
    """
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for name, text, dtypes in calls.select("name", "shapes", "dtypes").drop_nulls().iter_rows():
        shapes = _shapes(text)
        if name == LOOKUP and len(shapes) > 1 and len(shapes[1]) > 1:
            after.setdefault(shapes[1][0], []).append(math.prod(shapes[1]))
        elif name in PADS and dtypes.startswith(_WHOLE) and shapes:
            rows, count = _padded(name, shapes)
            if rows:
                before.setdefault(rows, []).append(count)
    for rows, counts in sorted(before.items()):
        if rows in after:
            yield Padding(rank=rank, samples=rows, before=_mean(counts), after=_mean(after[rows]))
    count, samples, tokens = (told.get(name, 0) for name in ("batches", "batch_samples", "batch_tokens"))
    if count and tokens and samples in after:
        left = max(0, tokens - told.get("batch_padding", 0))
        yield Padding(rank=rank, samples=samples, before=left / count, after=tokens / count)


def _padded(name: str, shapes: list[tuple[int, ...]]) -> tuple[int, int]:
    """Samples and tokens of a padded tensor; no samples if it is not a batch of tokens."""
    if name == "aten::pad_sequence":
        samples = [shape for shape in shapes if len(shape) == 1]
        return len(samples), sum(shape[0] for shape in samples)
    return (shapes[0][0], math.prod(shapes[0])) if len(shapes[0]) > 1 else (0, 0)


def _shapes(text: str) -> list[tuple[int, ...]]:
    return [shape_of(part) or () for part in per_tensor(text)]


def _mean(counts: list[int]) -> float:
    return sum(counts) / len(counts)


def padding_share(row: Padding) -> float:
    """The share of the tokens that are padding."""
    return max(0.0, 1 - row.before / row.after) if row.after else 0.0


def by_rank(rows: tuple[Padding, ...]) -> Mapping[int, Padding]:
    """For each rank, its batches with most padding."""
    found: dict[int, Padding] = {}
    for row in rows:
        if row.rank not in found or row.after - row.before > found[row.rank].after - found[row.rank].before:
            found[row.rank] = row
    return found
