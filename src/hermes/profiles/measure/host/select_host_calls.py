"""Selects and nests calls of the host: by reason, by thread, and by whether they work or wait."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import EMPTY, Intervals, union_of_intervals
from hermes.knowledge.blocking_calls import COMPUTES_NS, FEW_CALLS, NOT_COMPUTING, is_blocking
from hermes.knowledge.host_work import (
    COMPUTING,
    DATA,
    EVENTS,
    GC,
    LAUNCH,
    OPERATOR,
    OUTSIDE,
    PYTHON,
    REASONS,
    WORK_WAIT,
    host_reason,
    is_collective,
)
from hermes.model.tables import RUNTIME_KINDS

CALLS = (*RUNTIME_KINDS, "enqueue", "dequeue")


def spans(rows: pl.DataFrame) -> Intervals:
    """The union of rows with `start_ns` and `dur_ns`, as intervals."""
    starts = rows["start_ns"].to_numpy()
    return union_of_intervals(starts, starts + rows["dur_ns"].to_numpy()) if rows.height else EMPTY


def names_reason(reason: str) -> pl.Expr:
    """Whether the name of a row matches the pattern of a reason; reasons may share a pattern."""
    return pl.col("name").str.to_lowercase().str.contains(EVENTS[reason])


def calls_within(rows: pl.DataFrame, start_ns: int, end_ns: int) -> pl.DataFrame:
    """The rows that overlap `[start_ns, end_ns)`."""
    return rows.filter((pl.col("start_ns") < end_ns) & (pl.col("start_ns") + pl.col("dur_ns") > start_ns))


def intervals_by_reason(when: Intervals, calls: pl.DataFrame, gc: pl.DataFrame) -> Iterator[tuple[str, Intervals]]:
    """The intervals in which the host was in each reason; a moment counts for the first reason that fits.

    `calls` are rows of `host_op` (`kind, name, start_ns, dur_ns`) of the chosen threads, `gc` rows of the table `gc`.
    Every moment of `when` gets a reason.
    """
    known = {name: host_reason(name) for name in calls["name"].unique()}
    calls = calls.with_columns(
        pl.coalesce(
            pl.col("name").replace_strict(known, return_dtype=pl.String),
            pl.when(pl.col("kind").is_in(CALLS)).then(pl.lit(LAUNCH)),
            pl.when(pl.col("kind") == "op").then(pl.lit(OPERATOR)),
            pl.when(pl.col("kind").is_in(["python", "mark"])).then(pl.lit(PYTHON)),
            pl.lit(OUTSIDE),
        ).alias("reason")
    )
    of_reason = calls.partition_by("reason", as_dict=True)
    for reason in REASONS:
        rows = gc if reason == GC else computing_calls(calls) if reason == COMPUTING else of_reason.get((reason,))
        found = when if reason == OUTSIDE else EMPTY if rows is None else when & spans(rows)
        yield reason, found
        when = when - found


def computing_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """The outermost operators that compute on the host: long ones without runtime or queue calls inside.

    Threads with few runtime or queue calls have none, since their records do not show which operators the device does.
    Operators inside a call whose name tells its reason, such as the making of a batch, do not count either.
    """
    # Select few columns and rows: a trace may hold millions of calls.
    calls = calls.select("kind", "name", "pid", "tid", "start_ns", "dur_ns")
    reasons = [name for name in calls["name"].unique() if host_reason(name)]
    told = calls.filter(pl.col("name").is_in(reasons) & ~pl.col("kind").is_in(CALLS))
    calls = calls.filter((pl.col("kind") == "op") | pl.col("kind").is_in(CALLS))
    found = [calls.head(0)]
    for own in calls.partition_by("pid", "tid"):
        at = np.sort(own.filter(pl.col("kind").is_in(CALLS))["start_ns"].to_numpy())
        operators = own.filter(pl.col("kind") == "op")
        if len(at) < FEW_CALLS * operators.height or not len(at):
            continue
        long = operators.filter((pl.col("dur_ns") >= COMPUTES_NS) & ~pl.col("name").is_in(sorted(NOT_COMPUTING)))
        starts = long["start_ns"].to_numpy()
        inside = np.searchsorted(at, starts + long["dur_ns"].to_numpy()) - np.searchsorted(at, starts)
        found.append(long.filter(pl.Series(inside == 0)))
    rows = pl.concat(found)
    return outermost(rows.filter(enclosing(told, rows).is_null() & ~pl.col("name").is_in(reasons)))


def outermost(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that lie in no other row of their thread, by start."""
    rows = rows.sort("start_ns", "dur_ns", descending=[False, True])
    end = pl.col("start_ns") + pl.col("dur_ns")
    reach = end.cum_max().shift(1).over("pid", "tid")
    return rows.filter(reach.is_null() | (pl.col("start_ns") >= reach))


def blocking_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """The outermost calls that wait for the device, by their names.

    If no runtime call is recorded (Ascend's Level0), the operator that reads a number back stands for them.
    """
    below = calls.filter(pl.col("kind").is_in(RUNTIME_KINDS))
    if not below.height:
        return outermost(calls.filter((pl.col("kind") == "op") & (pl.col("name") == "aten::_local_scalar_dense")))
    waits = [name for name in below["name"].unique() if is_blocking(name)]
    return outermost(below.filter(pl.col("name").is_in(waits)))


def meetings(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of collectives, and the calls that wait for a collective begun before."""
    names = [str(name) for name in calls["name"].unique()]
    meets = [name for name in names if is_collective(name)]
    waits = [name for name in names if name.startswith(WORK_WAIT)] if meets else []
    return calls.filter(pl.col("name").is_in([*meets, *waits]))


def working_intervals(calls: pl.DataFrame, gc: pl.DataFrame, *, alone: bool = False) -> Intervals:
    """The intervals in which a thread was in an operator, a queue or a runtime call, and did not wait or fetch data.

    `alone`: without a device, the calls of collectives themselves wait for other ranks.
    """
    waits = blocking_calls(calls)
    if alone:
        waits = pl.concat([waits, meetings(calls).select(waits.columns)])
    fetches = calls.filter(names_reason(DATA))
    busy = spans(gc)
    for (pid, tid), own in calls.partition_by("pid", "tid", as_dict=True).items():
        mine = pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid)
        active = own.filter((pl.col("kind") == "op") | pl.col("kind").is_in(CALLS))
        busy = busy | (spans(active) - spans(waits.filter(mine)) - spans(fetches.filter(mine)))
    return busy


def dispatching(calls: pl.DataFrame) -> pl.DataFrame:
    """`pid`, `tid` of the threads that feed the device: that of the step marks (else the busiest), and autograd's."""
    threads = calls.filter(pl.col("kind") == "step").select("pid", "tid").unique()
    if not threads.height:
        ranked = calls.filter(pl.col("kind") == "op").group_by("pid", "tid").len()
        threads = ranked.sort("len", "pid", "tid", descending=[True, False, False]).select("pid", "tid").head(1)
    backward = calls.filter(pl.col("forward_tid").is_not_null()).select("pid", "tid").unique()
    return pl.concat([threads, backward]).unique().sort("pid", "tid")


def calls_of_threads(calls: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """The calls of the given threads, in their order."""
    return calls.filter(is_on_threads(threads))


def is_on_threads(threads: pl.DataFrame) -> pl.Expr:
    """Whether a call was on one of a few threads: comparing with each is faster than a join, and builds no table."""
    return pl.any_horizontal(
        pl.lit(value=False),
        *(
            pl.col("pid").eq_missing(pl.lit(pid, dtype=pl.Int64))
            & pl.col("tid").eq_missing(pl.lit(tid, dtype=pl.Int64))
            for pid, tid in threads.select("pid", "tid").iter_rows()
        ),
    )
