"""Encodes texts and pairs as integers: large captures keep arrays of codes, and each distinct value once."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.profiles.measure.leaves.nesting import Ints


def pairs_of(first: pl.Series, second: pl.Series) -> tuple[tuple[tuple[int | None, int | None], ...], Ints]:
    """The distinct pairs of two columns in order, missing values last, and each row's index among them."""
    missing = np.iinfo(np.int64).max
    columns = [column.cast(pl.Int64).fill_null(missing) for column in (first, second)]
    ones, others = (column.unique().sort().to_numpy() for column in columns)
    codes = np.searchsorted(ones, columns[0]) * len(others) + np.searchsorted(others, columns[1])
    used = pl.Series(codes).unique().sort().to_numpy()
    named = [(int(ones[code // len(others)]), int(others[code % len(others)])) for code in used.tolist()]
    pairs = tuple((None if a == missing else a, None if b == missing else b) for a, b in named)
    return pairs, np.searchsorted(used, codes).astype(np.int32)


def coded(values: pl.Series) -> tuple[list[str], Ints]:
    """The distinct texts of a column, and each row's index among them."""
    values = values.fill_null("")
    known = values.unique(maintain_order=True)
    return known.to_list(), values.cast(pl.Enum(known)).to_physical().cast(pl.Int32).to_numpy()
