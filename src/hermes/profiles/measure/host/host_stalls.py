"""Measures host stalls: how long the device is free because a call delays the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, Ints, union_of_intervals
from hermes.knowledge.host_work import CHECKPOINT, DATA
from hermes.model.step_measures import HostStall, StepSplit
from hermes.profiles.measure.host.select_host_calls import names_reason, spans
from hermes.profiles.measure.steps.breakdown import device_busy

_LONG_NS = 1_000_000
"""The length in ns from which a save or a silence ends a stall.

Writing a log line, which is shorter, belongs to the value that was read back for the line.
"""
_NEVER = np.iinfo(np.int64).max


def stalls(
    splits: Sequence[StepSplit],
    host_op: pl.DataFrame,
    kernel: pl.DataFrame,
    comm_op: pl.DataFrame,
    causes: Mapping[str, str],
    breaks: Ints,
) -> tuple[HostStall, ...]:
    """One row per cause that occurs on this rank, by the names of calls in `causes`; empty without device tasks.

    While the host is in a stalling call the device works off its queue. Then the device is free until the host has
    launched new work. The stretch of a call therefore runs to the start of the first device task after its end. The
    stretch ends earlier at the next call of another cause, which gets the rest. It also ends at the next of `breaks`,
    the sorted moments at which the host begins something else that delays it, such as fetching a batch. Only free time
    inside the windows of `splits` counts, and each moment once: for the first cause in `causes`, since one thread may
    wait while another compiles.
    """
    busy = device_busy(kernel, comm_op)
    calls = host_op.filter(pl.col("name").is_in(list(causes)))
    if not len(busy) or not calls.height:
        return ()
    calls = calls.with_columns(pl.col("name").replace_strict(causes, return_dtype=pl.String).alias("cause"))
    parts = calls.sort("start_ns").partition_by("cause", as_dict=True)
    begins = np.array([split.start_ns for split in splits], dtype=np.int64)
    lengths = np.array([split.window_ns for split in splits], dtype=np.int64)
    free = union_of_intervals(begins, begins + lengths) - busy
    found: list[HostStall] = []
    for cause in dict.fromkeys(causes.values()):
        if (cause,) in parts:
            others = np.concatenate([calls.filter(pl.col("cause") != cause)["start_ns"].to_numpy(), breaks])
            others.sort()
            row, idle = _of_cause(cause, parts[(cause,)], busy.starts, others, free)
            found.append(row)
            free = free - idle
    return tuple(found)


def breaks(host_op: pl.DataFrame, gc: pl.DataFrame) -> Ints:
    """The sorted moments at which the host begins to fetch a batch, to save data, or to collect garbage.

    A time of at least a millisecond without a recorded call of any thread also gives a moment.
    """
    names = host_op.select(pl.col("name").unique())
    chosen = names.filter(names_reason(DATA) | names_reason(CHECKPOINT))["name"]
    rows = host_op.filter(pl.col("name").is_in(chosen.implode()))
    rows = rows.filter(names_reason(DATA) | (pl.col("dur_ns") >= _LONG_NS))
    calls = spans(host_op.select("kind", "start_ns", "dur_ns").filter(~pl.col("kind").is_in(["step", "mark"])))
    silent = calls.ends[:-1][calls.starts[1:] - calls.ends[:-1] >= _LONG_NS]
    return np.sort(np.concatenate([rows["start_ns"].to_numpy(), gc["start_ns"].to_numpy(), silent]))


def _of_cause(
    cause: str, rows: pl.DataFrame, tasks: Ints, others: Ints, free: Intervals
) -> tuple[HostStall, Intervals]:
    starts = rows["start_ns"].to_numpy()
    ends = starts + rows["dur_ns"].to_numpy()
    # After the last device task nothing waits to be launched.
    until = np.minimum(_next(tasks, ends), _next(others, ends))
    stretch = union_of_intervals(starts, np.where(until == _NEVER, ends, until))
    idle = stretch & free
    longest = rows.sort("dur_ns", "start_ns", descending=[True, False]).row(0, named=True)
    row = HostStall(
        rank=longest["rank"],
        cause=cause,
        names=tuple(sorted(rows["name"].unique())),
        # `.item()` contains the call that does the work: one read-back makes two rows.
        calls=max(rows["name"].value_counts()["count"].to_list()),
        host_ns=union_of_intervals(starts, ends).total,
        idle_ns=idle.total,
        longest_ns=longest["dur_ns"],
        longest_at_ns=longest["start_ns"],
    )
    return row, idle


def _next(moments: Ints, after: Ints) -> Ints:
    """For each of `after`, the first of the sorted moments at or after it."""
    place = np.searchsorted(moments, after, side="left")
    return np.append(moments, _NEVER)[place]
