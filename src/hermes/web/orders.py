"""Orders of rows by a column of text: texts repeat, so the few distinct ones are sorted, and rows by their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

FILE_BITS = 40
"""A row's number is its place in its file, and 2^40 for each file before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """By row, all files after each other, the place of its text among the `distinct` texts in order of their bytes.

    A row without a text has the place after the last. `first` is where each file begins. In the smallest type that
    holds them: half a million rows of some thousand names take a megabyte.
    """

    of_row: NDArray[np.unsignedinteger]
    first: NDArray[np.int64]
    distinct: int

    @staticmethod
    def read(paths: Sequence[Path], column: str) -> Places:
        """Those of a column of Parquet files."""
        texts = [pl.read_parquet(path, columns=[column])[column].cast(pl.String) for path in paths]
        every = pl.concat(texts)
        distinct = every.drop_nulls().unique().sort()
        # The code of a text in an Enum is its place there.
        codes = every.cast(pl.Enum(distinct)).to_physical().fill_null(len(distinct))
        dtype = np.uint16 if len(distinct) < 1 << 16 else np.uint32
        first = np.cumsum([0, *map(len, texts)])
        return Places(of_row=codes.to_numpy().astype(dtype), first=first, distinct=len(distinct))

    def numbers(self) -> NDArray[np.int64]:
        """The numbers of all rows, in the order of the files."""
        sizes = np.diff(self.first)
        file = np.repeat(np.arange(len(sizes)), sizes)
        return np.asarray(np.arange(len(self.of_row)) - self.first[file] + (file << FILE_BITS), dtype=np.int64)

    def ordered(self, rows: NDArray[np.int64], *, descending: bool) -> NDArray[np.int64]:
        """Rows, given by number from the least, by their texts: equal ones by number, those without any last.

        Sorting is by radix up to 65 535 texts: O(n).
        """
        own = self.of_row[self.first[rows >> FILE_BITS] + (rows & ((1 << FILE_BITS) - 1))]
        if descending and self.distinct:
            own = np.where(own == self.distinct, own, self.distinct - 1 - own).astype(own.dtype)
        return rows[np.argsort(own, kind="stable")]
