"""Reads MindSpore's own ranges under `FRAMEWORK`: the work of its host side, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from hermes.base.units import ns_of_ms, whole_number
from hermes.profiles.read.ascend.raw.decode_records import Records
from hermes.profiles.read.ascend.raw.record_clock import Clock

_NAME, _FULL_NAME = 13, 14
FIELDS = frozenset({_NAME, _FULL_NAME})
"""Numbers of the fields that are read; they continue those of the fixed part."""
_PYTHON = 5
"""The number of the module `Python` in MindSpore's list of modules."""


_LONGEST_LINE = 64 << 20


def cpu_calls(paths: Sequence[Path]) -> pl.DataFrame:
    """Operators that ran on the host's processor, from `cpu_op_execute_timestamp_*.txt`, one operator per line.

    A line is `name;kind;calls`, a call `start,duration,thread`: nanoseconds since 1970, and milliseconds. Lines of
    another form are left out.
    """
    rows: list[tuple[str, int | None, int | None, int | None]] = []
    for path in paths:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                name, _, rest = line.decode("utf-8", "replace").partition(";")
                for call in rest.partition(";")[2].split():
                    start, _, more = call.partition(",")
                    duration, _, thread = more.partition(",")
                    row = whole_number(thread), whole_number(start), _length(duration)
                    if None not in row:
                        rows.append((name, *row))
    named = pl.DataFrame(rows, schema=["name", "tid", "start_ns", "dur_ns"], orient="row", strict=False)
    return named.select(
        pl.lit("op").alias("kind"), pl.col("name").cast(pl.String), pl.lit(0, dtype=pl.Int64).alias("pid"),
        *(pl.col(name).cast(pl.Int64) for name in ("tid", "start_ns", "dur_ns")),
        *(pl.lit(None, dtype=pl.String).alias(name) for name in ("shapes", "dtypes", "stack")),
        *(pl.lit(None, dtype=pl.Int64).alias(name) for name in ("sequence", "forward_tid")),
    )  # fmt: skip


def _length(text: str) -> int | None:
    try:
        return ns_of_ms(text)
    except (ValueError, ArithmeticError):
        return None


def calls(ranges: Records, clock: Clock) -> pl.DataFrame:
    """The ranges as calls of the framework; ranges of Python code are of kind `python`."""
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
