"""Measures events of a rank's host: compilation, allocation, garbage collections, dynamic shapes and CPU load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Intervals
from hermes.knowledge.host_work import (
    ALLOCATION,
    BUCKETS,
    CHECKPOINT,
    CHECKS,
    COLLECT,
    COLLECTIVES,
    COMPILATION,
    CONVERSION,
    DATA,
    ENDING,
    EVENTS,
    GC,
    LISTS,
    LOADING,
    OPTIMIZER,
    PIECES,
    RECURRENT,
    REDUCING,
    RESULTS,
    STARTING,
    UNPICKLING,
)
from hermes.knowledge.input_work import FRAMES
from hermes.model.host_measures import AllocatorCalls, Before, CoreLoad, HostEvents, Shapes
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.host.select_host_calls import calls_of_threads, names_reason, outermost, spans
from hermes.profiles.measure.host.settings import told_before

_COLLECTING = "<built-in function collect>"
_KINDS = (COMPILATION, ALLOCATION, CHECKPOINT)
_NAMES = 8
_MOSTLY = 0.33
"""The share of the time saved in captured steps that page faults, at their measured cost, must explain:

`profiler-cost.md`.
"""
USAGE = "CPU Usage"
"""The source of samples that tell how busy the cores of the host are."""
FRAME = 0.1
"""A Python frame costs the profiler this fraction of the cost of an operator call: `profiler-cost.md`."""
_BESIDE_NS = 100_000
"""The largest gap in ns between a comprehension's end and the call that converts its list: a few profiled calls."""
_MODULE = r"^nn\.module: "


def notable_calls(host_op: pl.DataFrame) -> pl.DataFrame:
    """The rows of `host_op` whose names tell of input, compilation, allocation, logging, or a module: few of many.

    The names are searched once; measures of a whole capture use only these rows.
    """
    patterns = "|".join(
        f"(?:{pattern})"
        for pattern in (
            *(
                EVENTS[reason]
                for reason in (
                    DATA,
                    CONVERSION,
                    LISTS,
                    UNPICKLING,
                    OPTIMIZER,
                    REDUCING,
                    COLLECTIVES,
                    BUCKETS,
                    PIECES,
                    STARTING,
                    ENDING,
                    RESULTS,
                    *_KINDS,
                )
            ),
            FRAMES,
            _MODULE,
        )
    )
    names = host_op["name"].unique()
    chosen = names.filter(names.str.to_lowercase().str.contains(patterns))
    return host_op.filter(pl.col("name").is_in(chosen.implode()))


def _asked_for(gc: pl.DataFrame, every: pl.DataFrame | None) -> pl.Series:
    """For each garbage collection, whether the program asked for it: whether it lies inside a call of gc.collect."""
    none = pl.Series([False] * gc.height, dtype=pl.Boolean)
    if every is None:
        return none
    calls = every.filter(pl.col("name") == _COLLECTING)
    if not calls.height:
        return none
    # No other Python code runs during a collection, on whatever thread it is recorded.
    threads = calls.select("pid", "tid").unique().head(1)
    return enclosing(calls, gc.select("start_ns", "dur_ns").join(threads, how="cross")).is_not_null()


def host_events(
    splits: Sequence[StepSplit],
    step: pl.DataFrame,
    calls: pl.DataFrame,
    gc: pl.DataFrame,
    setting: pl.DataFrame,
    busy: Intervals | None,
    loop: pl.DataFrame,
    checks: pl.DataFrame,
    rank: int,
    layers: pl.DataFrame | None = None,
    lists: pl.DataFrame | None = None,
    every: pl.DataFrame | None = None,
) -> Iterator[HostEvents]:
    """One row for each kind of event; `calls` are from `notable_calls`; `busy` is the device's work (None: unrecorded).

    `loop` holds `pid`, `tid` of the thread that runs the training loop, `checks` the calls of `analyze.checks`,
    `layers` those of `recurrent`, `lists` those of `made_into_tensors`. `every` are all calls of the host.
    """
    count = max(1, len(splits))
    fetched = spans(calls.filter(names_reason(DATA)))
    for reason in (*_KINDS, LOADING):
        found = calls.filter(names_reason(reason))
        if reason in (CHECKPOINT, LOADING) and loop.height:
            # Progress bars and loggers have threads of their own, which wait all the time.
            found = calls_of_threads(found, loop)
            # Files that a dataset reads for its samples count as input.
            found = rows_inside(found, spans(found) - fetched)
        yield sum_of_kind(rank, reason, outermost(found), found, step, count, busy, "names of host calls")
    converted = calls.filter(names_reason(CONVERSION))
    # A batch that workers or datasets make counts as input, whatever it is made of.
    own = outermost(calls_of_threads(converted, loop) if loop.height else converted)
    own = own if lists is None else outermost(pl.concat([own, lists]))
    made = rows_inside(own, spans(own) - fetched)
    row = sum_of_kind(rank, CONVERSION, made, own, step, count, busy, "Python frames")
    yield row if every is None else replace(row, recorded=recorded_in(spans(in_steps(made, step)), every, loop))
    for reason in (UNPICKLING, OPTIMIZER, REDUCING, COLLECTIVES, BUCKETS, PIECES):
        found = calls.filter(names_reason(reason))
        found = outermost(calls_of_threads(found, loop) if loop.height else found)
        row = sum_of_kind(rank, reason, found, found, step, count, busy, "names of host calls")
        if every is not None and reason == COLLECTIVES:
            row = replace(row, recorded=recorded_in(spans(in_steps(found, step)), every, loop))
        yield row
    if layers is not None:
        yield sum_of_kind(rank, RECURRENT, layers, layers, step, count, busy, "names of host calls")
    yield sum_of_kind(rank, CHECKS, checks, checks, step, count, busy, "names of host calls")
    recorded, source = _collector(gc, setting)
    if recorded:
        rows = gc.with_columns(pl.when(_asked_for(gc, every)).then(pl.lit(COLLECT)).otherwise(pl.lit(GC)).alias("name"))
        yield sum_of_kind(rank, GC, rows, rows, step, count, busy, source)
    else:
        yield HostEvents(
            rank=rank, what=GC, steps=count, steps_hit=None, calls=None, ns=None, longest_ns=None,
            device_free_ns=None, names=(), source=source,
        )  # fmt: skip


def recurrent(layers: pl.DataFrame, numbered: pl.DataFrame) -> pl.DataFrame:
    """Calls of the framework's recurrent layers, and the backward nodes of the operators in them.

    `numbered` are the operators with an autograd number. `layers` and `numbered` have `sequence` and `forward_tid`.
    """
    forward = numbered.filter(pl.col("forward_tid").is_null())
    inside = forward.filter(enclosing(layers, forward).is_not_null())["sequence"].unique()
    backward = numbered.filter(pl.col("forward_tid").is_not_null() & pl.col("sequence").is_in(inside.implode()))
    return outermost(pl.concat([layers, backward]))


def made_into_tensors(calls: pl.DataFrame, host_op: pl.DataFrame, loop: pl.DataFrame) -> pl.DataFrame:
    """Comprehensions on the loop's threads that end where a conversion to a tensor begins: they made the list.

    `calls` come from `notable_calls` on `host_op`. A comprehension that calls operators computes with tensors, and does
    not count.
    """
    lists = calls_of_threads(calls.filter(names_reason(LISTS)), loop)
    starts = calls_of_threads(calls.filter(names_reason(CONVERSION)), loop)["start_ns"].sort().to_numpy()
    if not lists.height or not len(starts):
        return lists.clear()
    ends = (lists["start_ns"] + lists["dur_ns"]).to_numpy()
    place = np.searchsorted(starts, ends)
    gap = starts[np.minimum(place, len(starts) - 1)] - ends
    begun = calls_of_threads(host_op.select("kind", "pid", "tid", "start_ns").filter(pl.col("kind") == "op"), loop)
    moments = begun["start_ns"].sort().to_numpy()
    inside = np.searchsorted(moments, ends) - np.searchsorted(moments, lists["start_ns"].to_numpy())
    return lists.filter(pl.Series((gap >= 0) & (gap <= _BESIDE_NS) & (inside == 0), dtype=pl.Boolean))


def rows_inside(rows: pl.DataFrame, when: Intervals) -> pl.DataFrame:
    """The rows that overlap `when`."""
    start = rows["start_ns"].to_numpy()
    return rows.filter(pl.Series(when.lasted(start + rows["dur_ns"].to_numpy()) > when.lasted(start)))


def _collector(gc: pl.DataFrame, setting: pl.DataFrame) -> tuple[bool, str]:
    """Whether garbage collections were recorded, and the source of that knowledge."""
    if gc.height:
        return True, "collections in the profile"
    threshold = setting.filter(pl.col("name").str.ends_with("gc_detect_threshold"))["value"].drop_nulls()
    if len(threshold) and threshold[0] not in ("", "null", "None"):
        return True, f"gc_detect_threshold {threshold[0][:20]}: none was longer"
    return False, "the profiler was not asked to record collections"


def sum_of_kind(
    rank: int,
    what: str,
    rows: pl.DataFrame,
    every: pl.DataFrame,
    step: pl.DataFrame,
    steps: int,
    busy: Intervals | None,
    source: str,
) -> HostEvents:
    """The events of one kind: `rows` are the outermost calls of the kind, `every` all of its calls."""
    rows, every = in_steps(rows, step), in_steps(every, step)
    when = spans(rows)
    longest = rows.sort("dur_ns", "start_ns", descending=[True, False]).select("start_ns", "dur_ns").head(1).rows()
    longest_at, longest_ns = longest[0] if longest else (None, None)
    top = (
        every.group_by("name")
        .agg(pl.len().alias("calls"), pl.col("dur_ns").sum().alias("ns"))
        .sort("ns", "name", descending=[True, False])
        .head(_NAMES)
    )
    marks = step.select("start_ns", "dur_ns").iter_rows()
    hit = sum(when.clip(start, start + length).total > 0 for start, length in marks)
    kind = AllocatorCalls if what == ALLOCATION else HostEvents
    return kind(
        rank=rank,
        what=what,
        steps=steps,
        steps_hit=hit if step.height else None,
        calls=rows.height,
        ns=when.total,
        longest_ns=longest_ns,
        longest_at_ns=longest_at,
        device_free_ns=None if busy is None else (when - busy).total,
        names=tuple(top.select("name", "calls", "ns").iter_rows()),
        source=source,
    )


def recorded_in(when: Intervals, calls: pl.DataFrame, loop: pl.DataFrame) -> float:
    """The `profiler_records` of calls that begin in these times, on the loop's threads if they are known."""
    if not when.total:
        return 0.0
    calls = calls.select("kind", "pid", "tid", "start_ns")
    own = calls_of_threads(calls, loop) if loop.height else calls
    moments = own["start_ns"].to_numpy()
    return profiler_records(own.filter(pl.Series(when.lasted(moments + 1) > when.lasted(moments), dtype=pl.Boolean)))


def profiler_records(calls: pl.DataFrame) -> float:
    """How many operator calls cost a profiler as much as these calls: a Python frame counts as a fraction of a call."""
    frames = int((calls["kind"] == "python").sum())
    return calls.height - frames * (1 - FRAME)


def in_steps(rows: pl.DataFrame, step: pl.DataFrame) -> pl.DataFrame:
    """The part of the rows between the first step and the last; all of it if no step is marked.

    A capture may end within a call, which then lasts until all data is written.
    """
    if not step.height:
        return rows
    first, last = step.select(
        pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end_ns")
    ).row(0)
    start, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    return rows.filter((start < last) & (end > first)).with_columns(
        pl.max_horizontal(start, pl.lit(first)).alias("start_ns"),
        (pl.min_horizontal(end, pl.lit(last)) - pl.max_horizontal(start, pl.lit(first))).alias("dur_ns"),
    )


def shapes(rank: int, kernel: pl.DataFrame) -> Shapes | None:
    """Shapes of the compute kernels; None if no shape is recorded."""
    rows = kernel.filter((pl.col("component") == "compute") & pl.col("input_shapes").is_not_null())
    known = kernel.filter(pl.col("op_state").is_in(["dynamic", "static"]))
    if not rows.height and not known.height:
        return None
    seen = rows.group_by("type", "input_shapes").agg(pl.col("step").min())
    first, several = rows["step"].min(), rows["step"].n_unique() > 1
    return Shapes(
        rank=rank,
        known=known.height,
        dynamic=known.filter(pl.col("op_state") == "dynamic").height,
        kernels=rows.height,
        distinct=seen.height,
        new=seen.filter(pl.col("step") > first).height if several and first is not None else None,
    )


def contention(rank: int, counter: pl.DataFrame) -> CoreLoad | None:
    """The load of the host's cores; None if it was not sampled (`host_sys` on Ascend)."""
    rows = counter.filter((pl.col("source") == USAGE) & pl.col("value").is_not_null())
    if not rows.height:
        return None
    means = rows.group_by("name").agg(pl.col("value").mean())["value"]
    usage, busiest = means.mean(), means.max()
    if not isinstance(usage, float) or not isinstance(busiest, float):
        return None
    return CoreLoad(rank=rank, cores=len(means), usage=usage / 100, busiest=busiest / 100)


def steps_before_capture(rank: int, setting: pl.DataFrame, calls: float, captured_ns: int = 0) -> Before | None:
    """The steps before the capture as the capture describes them; None if it does not.

    `calls` are the `profiler_records` of a step, which took `captured_ns` (0: unknown). Steps before may be longer,
    mostly by page faults that captured steps did not have. Then a page fault costs at least its share of the
    difference.
    """
    known = told_before(setting)
    if not known.get("steps") or not known.get("step_ns"):
        return None
    return Before(
        rank=rank,
        steps=known["steps"],
        step_ns=known["step_ns"],
        gc_ns=known.get("gc_ns"),
        data_ns=known.get("data_ns"),
        data_cpu_ns=known.get("data_cpu_ns"),
        save_ns=known.get("save_ns"),
        optimizer_ns=known.get("optimizer_ns"),
        minor_faults=known.get("minor_faults"),
        fault_ns=_fault_ns(known, captured_ns),
        spread_ns=known.get("spread_ns"),
        captured_faults=known.get("captured_minor_faults"),
        calls=calls,
        cpu_ns=known.get("cpu_ns"),
        delay_ns=known.get("delay_ns"),
        start_ns=known.get("loader_start_ns"),
        starts=known.get("loader_starts", 0),
    )


def _fault_ns(known: Mapping[str, int], captured_ns: int) -> int | None:
    """The cost of a page fault in ns: as measured, or as steps without page faults tell.

    Large tensors lose their place in caches.
    """
    told = known.get("fault_ns")
    fewer = known.get("minor_faults", 0) - known.get("captured_minor_faults", known.get("minor_faults", 0))
    shorter = known["step_ns"] - captured_ns
    if told is None or not captured_ns or fewer <= 0 or fewer * told < _MOSTLY * shorter:
        return told
    return max(told, shorter // fewer)
