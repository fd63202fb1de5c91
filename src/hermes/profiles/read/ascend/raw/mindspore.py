"""MindSpore's own ranges under `FRAMEWORK`: what its host side did, operator by operator."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.profiles.read.ascend.raw.clock import Clock
from hermes.profiles.read.ascend.raw.records import Records

_NAME, _FULL_NAME = 13, 14
FIELDS = frozenset({_NAME, _FULL_NAME})
"""Numbers of the fields that are read; they go on from those of the fixed part."""
_PYTHON = 5
"""The module `Python` in MindSpore's list of them."""


def calls(ranges: Records, clock: Clock) -> pl.DataFrame:
    """The ranges as calls of the framework; those of Python code are of kind `python`."""
    rows = np.array([fixed[:7] for fixed in ranges.fixed], dtype=np.int64).reshape(-1, 7)
    start = clock.at(rows[:, 3])
    names = [fields.get(_FULL_NAME) or fields.get(_NAME) or "unknown" for fields in ranges.fields]
    return pl.DataFrame(
        {
            "kind": pl.Series(["python" if module == _PYTHON else "op" for module in rows[:, 6]], dtype=pl.String),
            "name": pl.Series(names, dtype=pl.String),
            "pid": rows[:, 5],
            "tid": rows[:, 0],
            "start_ns": start,
            "dur_ns": clock.at(rows[:, 4]) - start,
        }
    ).with_columns(
        *(pl.lit(None, dtype=pl.String).alias(name) for name in ("shapes", "dtypes", "stack")),
        *(pl.lit(None, dtype=pl.Int64).alias(name) for name in ("sequence", "forward_tid")),
    )
