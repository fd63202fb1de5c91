"""What loaders say of themselves to a capture: how often workers were started, and how much of batches is padding.

A capture of a few steps may hold no start of an epoch, and no profile holds the values of a batch. Only tensors on the
host are looked at, a few rows of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hermes.inside.monitor.meter import Meter

_NARROWEST, _FEWEST = 8, 2
"""Fewer columns are no sequence, and one row has nothing that it was padded for."""
_MOST_KEPT, _MOST_PARTS, _MOST_ROWS, _MOST_COLUMNS, _MOST_ELEMENTS = 4, 64, 64, 8_192, 16_384
"""Of so many batches so much is looked at, in some milliseconds in all: the step before a capture waits for it."""
_LEAST_RUN = 2


class Loaders:
    """Counts steps from when it is made, and keeps the tensors of the batches that are handed out until `told`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._since = meter.count

    def begin(self) -> None:
        """Keep what is handed out from now on."""
        if self._meter.kept is None:
            self._meter.kept = []

    def told(self, steps: int = 0) -> dict[str, int]:
        """Keep no more. What `told_of` says of the batches that were kept, and `loader_starts`: how often workers were
        started in the last `steps` steps, or in all so far where none was in these. `loader_start_ns` is what that and
        their first batches took, a step. Empty where nothing is told.
        """
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
        """Keep no more, and let go of what was kept."""
        self._meter.kept = None


def keep(kept: list[Any], batch: object) -> None:
    """Add a batch: those of its tensors, at most two levels down, that may be rows of tokens."""
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
    """`batches`, `batch_samples` of one, and in all `batch_tokens` and `batch_padding` of the largest rows of each."""
    count = samples = tokens = padding = 0
    for batch in batches:
        shape = max((tuple(one.shape) for one in batch), key=lambda shape: shape[0] * shape[1], default=None)
        rows = min(_MOST_ROWS, _MOST_ELEMENTS // shape[1]) if shape else 0
        alike = [one[:rows].tolist() for one in batch if tuple(one.shape) == shape]
        # What else has that shape (masks, labels, types of tokens) ends alike for reasons of its own, too.
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
    """The part of the elements that repeat one value to an end of their row, at the end where that is more.

    None where most rows are one value throughout: no row is all padding, so they say something else.
    """
    if 2 * sum(row.count(row[0]) == len(row) for row in rows) > len(rows):
        return None
    width = len(rows[0])
    return max(_run_at(rows), _run_at([row[::-1] for row in rows])) / (len(rows) * width)


def _run_at(rows: list[list[int]]) -> int:
    """How many elements at the ends of all rows are the value that most rows end with."""
    ((value, _),) = Counter(row[-1] for row in rows).most_common(1)
    return sum(run for row in rows if (run := _run(row, value)) >= _LEAST_RUN)


def _run(row: list[int], value: int) -> int:
    return next((at for at, one in enumerate(reversed(row)) if one != value), len(row))
