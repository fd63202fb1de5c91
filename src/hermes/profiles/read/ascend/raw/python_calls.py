"""Builds Python calls from torch_npu's tracer: entries and exits of functions, joined thread by thread."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl

from hermes.profiles.read.ascend.raw.decode_records import Records
from hermes.profiles.read.ascend.raw.record_clock import Clock

_CALL, _RETURN, _C_CALL, _C_RETURN = range(4)
_MODULE = "######"
"""The text between the name of a module's class and its identity."""


def python_calls(traced: Records, names: Records, clock: Clock) -> pl.DataFrame:
    """One row per call; a module's call is named `nn.Module: Linear_0`.

    A call still open at the end lasts until the last record of its thread.
    """
    texts = {fixed[0]: fields.get(1, "") for fixed, fields in zip(names.fixed, names.fields, strict=True)}
    threads: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for time, thread, process, key, tag in traced.fixed:
        threads[(process, thread)].append((time, key, tag))
    rows: list[tuple[str, int, int, int, int]] = []
    for (process, thread), events in sorted(threads.items()):
        events.sort(key=lambda event: event[0])
        rows += _replayed(events, texts, process, thread)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    start, end = (clock.at(np.array(column, dtype=np.int64)) for column in columns[3:])
    return pl.DataFrame(
        {
            "name": pl.Series(columns[0], dtype=pl.String),
            "pid": pl.Series(columns[1], dtype=pl.Int64),
            "tid": pl.Series(columns[2], dtype=pl.Int64),
            "start_ns": start,
            "dur_ns": end - start,
        }
    ).with_columns(
        pl.lit("python").alias("kind"),
        *(pl.lit(None).alias(name) for name in ("shapes", "dtypes", "sequence", "forward_tid", "stack")),
    )


def _replayed(
    events: list[tuple[int, int, int]], texts: dict[int, str], process: int, thread: int
) -> list[tuple[str, int, int, int, int]]:
    numbers: dict[str, dict[str, int]] = defaultdict(dict)
    open_calls: list[tuple[str, int]] = []
    rows: list[tuple[str, int, int, int, int]] = []
    for time, key, tag in events:
        if tag in (_CALL, _C_CALL):
            open_calls.append((_named(texts.get(key, str(key)), numbers), time))
        elif open_calls:
            name, start = open_calls.pop()
            rows.append((name, process, thread, start, time))
    rows += [(name, process, thread, start, events[-1][0]) for name, start in open_calls]
    return rows


def _named(text: str, numbers: dict[str, dict[str, int]]) -> str:
    if _MODULE not in text:
        return text
    name, _, identity = text.partition(_MODULE)
    number = numbers[name].setdefault(identity, len(numbers[name]))
    return f"nn.Module: {name}_{number}"
