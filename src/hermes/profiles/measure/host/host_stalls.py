"""How long the device stood free because the host was held up in certain calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, Ints, flat
from hermes.knowledge.host_work import CHECKPOINT, DATA
from hermes.model.measures import HostStall, StepSplit
from hermes.profiles.measure.host.calls import named, spans
from hermes.profiles.measure.steps.breakdown import device_busy

_LONG_NS = 1_000_000
"""Writing a line of a log is part of what follows a value that was read back, saving a model is not."""
_NEVER = np.iinfo(np.int64).max


def stalls(
    splits: Sequence[StepSplit],
    host_op: pl.DataFrame,
    kernel: pl.DataFrame,
    comm_op: pl.DataFrame,
    causes: Mapping[str, str],
    breaks: Ints,
) -> tuple[HostStall, ...]:
    """One row per cause that occurs on this rank, by the names of calls in `causes`; none without device tasks.

    While the host is in such a call the device works off its queue; then it is free until the host has launched
    something new. The stretch of a call therefore runs to the start of the first device task after its end, or to
    the next call of another cause, whose loss the rest is, or to the next of `breaks`, the sorted moments at which the
    host begins something else that holds it up, such as fetching a batch. Only free time inside the windows of `splits`
    counts, and each moment once: for the cause that stands first in `causes`, as one thread waits while another
    compiles.
    """
    busy = device_busy(kernel, comm_op)
    calls = host_op.filter(pl.col("name").is_in(list(causes)))
    if not len(busy) or not calls.height:
        return ()
    calls = calls.with_columns(pl.col("name").replace_strict(causes, return_dtype=pl.String).alias("cause"))
    parts = calls.sort("start_ns").partition_by("cause", as_dict=True)
    begins = np.array([split.start_ns for split in splits], dtype=np.int64)
    lengths = np.array([split.window_ns for split in splits], dtype=np.int64)
    free = flat(begins, begins + lengths) - busy
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
    """The sorted moments at which the host begins to fetch a batch, to save something, or to collect garbage.

    So does a time of a millisecond and more in which no call of any thread was recorded.
    """
    names = host_op.select(pl.col("name").unique())
    chosen = names.filter(named(DATA) | named(CHECKPOINT))["name"]
    rows = host_op.filter(pl.col("name").is_in(chosen.implode()))
    rows = rows.filter(named(DATA) | (pl.col("dur_ns") >= _LONG_NS))
    calls = spans(host_op.select("kind", "start_ns", "dur_ns").filter(~pl.col("kind").is_in(["step", "mark"])))
    silent = calls.ends[:-1][calls.starts[1:] - calls.ends[:-1] >= _LONG_NS]
    return np.sort(np.concatenate([rows["start_ns"].to_numpy(), gc["start_ns"].to_numpy(), silent]))


def _of_cause(
    cause: str, rows: pl.DataFrame, tasks: Ints, others: Ints, free: Intervals
) -> tuple[HostStall, Intervals]:
    starts = rows["start_ns"].to_numpy()
    ends = starts + rows["dur_ns"].to_numpy()
    # Behind the last device task nothing waits to be launched.
    until = np.minimum(_next(tasks, ends), _next(others, ends))
    stretch = flat(starts, np.where(until == _NEVER, ends, until))
    idle = stretch & free
    longest = rows.sort("dur_ns", "start_ns", descending=[True, False]).row(0, named=True)
    row = HostStall(
        rank=longest["rank"],
        cause=cause,
        names=tuple(sorted(rows["name"].unique())),
        # `.item()` holds the call that does the work: one reading back, two rows.
        calls=max(rows["name"].value_counts()["count"].to_list()),
        host_ns=flat(starts, ends).total,
        idle_ns=idle.total,
        longest_ns=longest["dur_ns"],
        longest_at_ns=longest["start_ns"],
    )
    return row, idle


def _next(moments: Ints, after: Ints) -> Ints:
    """The first of the sorted moments at or behind each of `after`."""
    place = np.searchsorted(moments, after, side="left")
    return np.append(moments, _NEVER)[place]
