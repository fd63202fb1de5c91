"""What takes the host of a rank over a capture: compilation, allocation, collections; shapes; load; settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals
from hermes.base.nesting import enclosing
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
from hermes.model.host_measures import AllocatorCalls, Before, Contention, HostEvents, Shapes
from hermes.model.measures import StepSplit
from hermes.profiles.measure.host.calls import named, of_threads, outermost, spans
from hermes.profiles.measure.host.settings import told_before

_COLLECTING = "<built-in function collect>"
_KINDS = (COMPILATION, ALLOCATION, CHECKPOINT)
_NAMES = 8
_MOSTLY = 0.33
"""So much of what captured steps are shorter by must be page faults at their measured cost: `profiler-cost.md`."""
USAGE = "CPU Usage"
"""The source of samples of how busy cores of the host are."""
FRAME = 0.1
"""A frame of Python costs a profiler such a part of what a call of an operator does: `profiler-cost.md`."""
_BESIDE_NS = 100_000
"""Between the end of a list and the call that it is an argument of: some calls, and what a profiler adds to them."""
_MODULE = r"^nn\.module: "


def notable(host_op: pl.DataFrame) -> pl.DataFrame:
    """The rows of `host_op` whose names tell of input, compilation, allocation, logging, or a module: few of many.

    One pass over the names; all that looks at a whole capture looks at these.
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
    """Which collections the program asked for: those inside of a call of gc.collect."""
    none = pl.Series([False] * gc.height, dtype=pl.Boolean)
    if every is None:
        return none
    calls = every.filter(pl.col("name") == _COLLECTING)
    if not calls.height:
        return none
    # Nothing else of Python runs during a collection, on whatever thread it is recorded.
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
    """One row for each kind; `calls` are those of `notable`, `busy` is when the device worked (None: not recorded).

    `loop` holds `pid`, `tid` of the thread that runs the training loop, `checks` the calls of `analyze.checks`,
    `layers` those of `recurrent`, `lists` those of `made_into_tensors`. `every` are all calls of the host.
    """
    count = max(1, len(splits))
    fetched = spans(calls.filter(named(DATA)))
    for reason in (*_KINDS, LOADING):
        found = calls.filter(named(reason))
        if reason in (CHECKPOINT, LOADING) and loop.height:
            # Progress bars and loggers have threads of their own, which wait all the time.
            found = of_threads(found, loop)
            # What a dataset reads for its samples is input.
            found = cut(found, spans(found) - fetched)
        yield summed(rank, reason, outermost(found), found, step, count, busy, "names of host calls")
    converted = calls.filter(named(CONVERSION))
    # A batch that workers or datasets make is input, whatever it is made of.
    own = outermost(of_threads(converted, loop) if loop.height else converted)
    own = own if lists is None else outermost(pl.concat([own, lists]))
    made = cut(own, spans(own) - fetched)
    row = summed(rank, CONVERSION, made, own, step, count, busy, "Python frames")
    yield row if every is None else replace(row, recorded=recorded_in(spans(in_steps(made, step)), every, loop))
    for reason in (UNPICKLING, OPTIMIZER, REDUCING, COLLECTIVES, BUCKETS, PIECES):
        found = calls.filter(named(reason))
        found = outermost(of_threads(found, loop) if loop.height else found)
        row = summed(rank, reason, found, found, step, count, busy, "names of host calls")
        if every is not None and reason == COLLECTIVES:
            row = replace(row, recorded=recorded_in(spans(in_steps(found, step)), every, loop))
        yield row
    if layers is not None:
        yield summed(rank, RECURRENT, layers, layers, step, count, busy, "names of host calls")
    yield summed(rank, CHECKS, checks, checks, step, count, busy, "names of host calls")
    recorded, source = _collector(gc, setting)
    if recorded:
        rows = gc.with_columns(pl.when(_asked_for(gc, every)).then(pl.lit(COLLECT)).otherwise(pl.lit(GC)).alias("name"))
        yield summed(rank, GC, rows, rows, step, count, busy, source)
    else:
        yield HostEvents(
            rank=rank, what=GC, steps=count, steps_hit=None, calls=None, ns=None, longest_ns=None,
            device_free_ns=None, names=(), source=source,
        )  # fmt: skip


def recurrent(layers: pl.DataFrame, numbered: pl.DataFrame) -> pl.DataFrame:
    """Recurrent layers of the framework, and the nodes of the backward pass of what ran in them.

    `numbered` are the operators that autograd has numbered; both with `sequence` and `forward_tid`.
    """
    forward = numbered.filter(pl.col("forward_tid").is_null())
    inside = forward.filter(enclosing(layers, forward).is_not_null())["sequence"].unique()
    backward = numbered.filter(pl.col("forward_tid").is_not_null() & pl.col("sequence").is_in(inside.implode()))
    return outermost(pl.concat([layers, backward]))


def made_into_tensors(calls: pl.DataFrame, host_op: pl.DataFrame, loop: pl.DataFrame) -> pl.DataFrame:
    """Comprehensions on the loop's threads that end where a conversion begins: they made what it turns into a tensor.

    `calls` are those of `notable`, of all in `host_op`: a comprehension that calls operators computes with tensors.
    """
    lists = of_threads(calls.filter(named(LISTS)), loop)
    starts = of_threads(calls.filter(named(CONVERSION)), loop)["start_ns"].sort().to_numpy()
    if not lists.height or not len(starts):
        return lists.clear()
    ends = (lists["start_ns"] + lists["dur_ns"]).to_numpy()
    place = np.searchsorted(starts, ends)
    gap = starts[np.minimum(place, len(starts) - 1)] - ends
    begun = of_threads(host_op.select("kind", "pid", "tid", "start_ns").filter(pl.col("kind") == "op"), loop)
    moments = begun["start_ns"].sort().to_numpy()
    inside = np.searchsorted(moments, ends) - np.searchsorted(moments, lists["start_ns"].to_numpy())
    return lists.filter(pl.Series((gap >= 0) & (gap <= _BESIDE_NS) & (inside == 0), dtype=pl.Boolean))


def cut(rows: pl.DataFrame, when: Intervals) -> pl.DataFrame:
    """The rows that do not lie outside of `when`."""
    start = rows["start_ns"].to_numpy()
    return rows.filter(pl.Series(when.lasted(start + rows["dur_ns"].to_numpy()) > when.lasted(start)))


def _collector(gc: pl.DataFrame, setting: pl.DataFrame) -> tuple[bool, str]:
    """Whether collections were recorded, and by what."""
    if gc.height:
        return True, "collections in the profile"
    threshold = setting.filter(pl.col("name").str.ends_with("gc_detect_threshold"))["value"].drop_nulls()
    if len(threshold) and threshold[0] not in ("", "null", "None"):
        return True, f"gc_detect_threshold {threshold[0][:20]}: none was longer"
    return False, "the profiler was not asked to record collections"


def summed(
    rank: int,
    what: str,
    rows: pl.DataFrame,
    every: pl.DataFrame,
    step: pl.DataFrame,
    steps: int,
    busy: Intervals | None,
    source: str,
) -> HostEvents:
    """The measure of one kind: `rows` are its outermost calls, `every` all of them."""
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
    """The `records` of calls that begin in these times, on the loop's threads where these are known."""
    if not when.total:
        return 0.0
    calls = calls.select("kind", "pid", "tid", "start_ns")
    own = of_threads(calls, loop) if loop.height else calls
    moments = own["start_ns"].to_numpy()
    return records(own.filter(pl.Series(when.lasted(moments + 1) > when.lasted(moments), dtype=pl.Boolean)))


def records(calls: pl.DataFrame) -> float:
    """How many calls of operators cost a profiler as much as these calls: a frame of Python is a small part of one."""
    frames = int((calls["kind"] == "python").sum())
    return calls.height - frames * (1 - FRAME)


def in_steps(rows: pl.DataFrame, step: pl.DataFrame) -> pl.DataFrame:
    """The rows as far as they lie between the first step and the last; as they are where no step is marked.

    A capture may end within a call, which then lasts until all is written.
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
    """Shapes of the kernels that compute; None where none is recorded."""
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


def contention(rank: int, counter: pl.DataFrame) -> Contention | None:
    """Load of the host's cores, where it was sampled (`host_sys` on Ascend)."""
    rows = counter.filter((pl.col("source") == USAGE) & pl.col("value").is_not_null())
    if not rows.height:
        return None
    means = rows.group_by("name").agg(pl.col("value").mean())["value"]
    usage, busiest = means.mean(), means.max()
    if not isinstance(usage, float) or not isinstance(busiest, float):
        return None
    return Contention(rank=rank, cores=len(means), usage=usage / 100, busiest=busiest / 100)


def before(rank: int, setting: pl.DataFrame, calls: float, captured_ns: int = 0) -> Before | None:
    """What the capture says of the steps before it; None where it says nothing.

    `calls` are the `records` of a step, which took `captured_ns` (0: not known): where steps before were longer, most
    of that by page faults that captured ones did not have, these cost at least as much as is missing.
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
    """What a page fault costs: as measured, or as steps without them tell. Large tensors lose their place in caches."""
    told = known.get("fault_ns")
    fewer = known.get("minor_faults", 0) - known.get("captured_minor_faults", known.get("minor_faults", 0))
    shorter = known["step_ns"] - captured_ns
    if told is None or not captured_ns or fewer <= 0 or fewer * told < _MOSTLY * shorter:
        return told
    return max(told, shorter // fewer)
