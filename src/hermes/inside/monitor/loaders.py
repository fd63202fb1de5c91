"""Measures data loaders for a capture: how often workers were started, and how much of the batches is padding.

A capture of a few steps may hold no start of an epoch, and no profile holds the values of a batch. Only tensors on the
host are read, a few rows of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hermes.inside.monitor.step_meter import StepMeter

_NARROWEST, _FEWEST = 8, 2
"""Fewest columns of a sequence, and fewest rows: a single row needs no padding."""
_MOST_KEPT, _MOST_PARTS, _MOST_ROWS, _MOST_COLUMNS, _MOST_ELEMENTS = 4, 64, 64, 8_192, 16_384
"""Limits on the batches and on the parts of a batch that are read, some milliseconds in all: the step before a capture
waits for it."""
_LEAST_RUN = 2


class Loaders:
    """The loaders of one process: counts steps since creation, and keeps the tensors of the loaded batches until
    `told`."""

    def __init__(self, meter: StepMeter) -> None:
        self._meter = meter
        self._since = meter.count

    def begin(self) -> None:
        """Keep the loaded batches from now on."""
        if self._meter.kept is None:
            self._meter.kept = []

    def told(self, steps: int = 0) -> dict[str, int]:
        """Keep no more batches, and return `told_of` of the kept batches and `loader_starts`: how often workers were
        started in the last `steps` steps. If none were started, the count is that of all steps so far.
        `loader_start_ns` is the time of the starts and their first batches, per step. Empty where nothing is known."""
        meter = self._meter
        batches = told_of(meter.kept or ())
        meter.kept = None
        every = meter.count - self._since
        for many in (steps, every):
            starts = [ns for count, ns in meter.starts if count >= meter.count - many]
            if starts and 0 < many <= every:
                return {**batches, "loader_starts": len(starts), "loader_start_ns": sum(starts) // many}
        return batches

    def end(self) -> None:
        """Keep no more batches, and release the kept batches."""
        self._meter.kept = None


def keep(kept: list[Any], batch: object) -> None:
    """Add to `kept` the tensors of a batch, at most two levels down, that may be rows of tokens."""
    if len(kept) < _MOST_KEPT:
        kept.append([one for one in _parts(batch, 2) if _may_be_tokens(one)])


def _parts(batch: object, deep: int) -> Iterable[object]:
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (tuple, list)) and deep:
        for one in batch[:_MOST_PARTS]:
            yield from _parts(one, deep - 1)
    else:
        yield batch


def _may_be_tokens(one: Any) -> bool:
    shape = getattr(one, "shape", None)
    return (
        isinstance(shape, tuple)
        and len(shape) == 2
        and shape[0] >= _FEWEST
        and _NARROWEST <= shape[1] <= _MOST_COLUMNS
        and bool(getattr(one, "is_cpu", False))
        and str(getattr(one, "dtype", "")) in ("torch.int64", "torch.int32")
    )


def told_of(batches: Iterable[list[Any]]) -> dict[str, int]:
    """`batches`, `batch_samples` of one batch, and the total `batch_tokens` and `batch_padding` of each batch's largest
    rows."""
    count = samples = tokens = padding = 0
    for batch in batches:
        shape = max((tuple(one.shape) for one in batch), key=lambda shape: shape[0] * shape[1], default=None)
        rows = min(_MOST_ROWS, _MOST_ELEMENTS // shape[1]) if shape else 0
        alike = [one[:rows].tolist() for one in batch if tuple(one.shape) == shape]
        # Other tensors of that shape (masks, labels, types of tokens) have equal ends for reasons of their own.
        shares = [share for share in map(padding_of, alike) if share is not None]
        if shape is None or not shares:
            continue
        count, samples = count + 1, samples + shape[0]
        tokens += shape[0] * shape[1]
        padding += round(min(shares) * shape[0] * shape[1])
    if not count:
        return {}
    return {"batches": count, "batch_samples": samples // count, "batch_tokens": tokens, "batch_padding": padding}


def padding_of(rows: list[list[int]]) -> float | None:
    """The share of elements that repeat one value up to an end of their row, at the end where that share is larger.

    None where most rows hold one value throughout: no row is all padding, so such rows are no tokens.
    """
    if 2 * sum(row.count(row[0]) == len(row) for row in rows) > len(rows):
        return None
    width = len(rows[0])
    return max(_run_at(rows), _run_at([row[::-1] for row in rows])) / (len(rows) * width)


def _run_at(rows: list[list[int]]) -> int:
    """How many elements at the ends of all rows have the value that most rows end with."""
    ((value, _),) = Counter(row[-1] for row in rows).most_common(1)
    return sum(run for row in rows if (run := _run(row, value)) >= _LEAST_RUN)


def _run(row: list[int], value: int) -> int:
    return next((at for at, one in enumerate(reversed(row)) if one != value), len(row))
