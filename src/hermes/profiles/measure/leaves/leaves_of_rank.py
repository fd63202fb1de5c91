"""Computes the leaves of one rank: device tasks and idle gaps, by step, operator and line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from hermes.base.intervals import EMPTY, Intervals, union_of_intervals
from hermes.base.usable_cores import spare_thread
from hermes.model.leaf_time import How, IdleStretch, LeafTime
from hermes.profiles.measure.code.line_samples import seen_of
from hermes.profiles.measure.host.settings import told_before
from hermes.profiles.measure.leaves.call_trees import LEAVES, CallTrees
from hermes.profiles.measure.leaves.idle import Host, idle_parts, stepping_thread, within_operations
from hermes.profiles.measure.leaves.labelled_stretches import cut_at, stretches_outside
from hermes.profiles.measure.leaves.leaf_stretches import AT, HOWS
from hermes.profiles.measure.leaves.lines_of_leaves import LEAF, SCHEMA, LeafSites, Spans
from hermes.profiles.measure.leaves.nesting import NONE, Ints
from hermes.profiles.measure.leaves.spells import RankSpells, Waits, binding, rank_spells, spells_of
from hermes.profiles.measure.leaves.tasks import PARTS, Tasks, tasks_of
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.capture_extent import capture_extent
from hermes.profiles.measure.steps.step_window import Windows, windows_of

MOST_PLACES, LEAST = 32, 0.0005
"""The most rows of one leaf that a rank keeps apart, and the least share of its steps that each must take.

The longest rows are kept. The other rows become one row: no leaf is cut, whatever it is of.
"""
MOST_AWAITED = 32
"""The most ranks that a rank names as awaited; the others become one."""
LONGEST = 20
"""The most idle stretches that a rank tells."""
_KEPT = ["leaf", "kept_how", "kept_what", "kept_place", "awaited"]
LONG_STEP = 1.5
"""The factor over the typical step from which a step counts as long."""
_HOST_OP = (
    "kind", "name", "pid", "tid", "start_ns", "dur_ns", "correlation", "sequence", "forward_tid", "stack_id",
)  # fmt: skip
_KERNEL = (
    "component", "name", "type", "unit", "start_ns", "dur_ns", "stream", "device_id", "correlation", "launch_ns",
    "step",
)  # fmt: skip
_COMM_OP = (
    "comm_id",
    "library",
    "name",
    "op",
    "group",
    "start_ns",
    "dur_ns",
    "stream",
    "correlation",
    "launch_ns",
    "step",
)


_TABLES = ("host_op", "kernel", "comm_op", "flow", "step", "gc", "stack")
NO_WAITS = pl.DataFrame(schema={"comm_id": pl.Int64, "split": pl.Boolean, "wait_ns": pl.Int64, "last": pl.Int64})
"""The waits of a rank without other ranks: nothing is known of the others."""
NO_STRETCHES = pl.DataFrame(
    schema={"start_ns": pl.Int64, "ns": pl.Int64, "leaf": pl.Int64, "what": pl.String, "place": pl.String}
)
"""The idle stretches of a rank without a device."""
NO_SAMPLES = pl.DataFrame(schema={"start_ns": pl.Int64, "line": pl.String, "ns": pl.Int64})
"""The samples of the stepping thread: none were taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLeaves:
    """The leaves of a rank by spell: the columns of `SCHEMA`, where `spell` is an index into `spells`.

    `binding` are the indices of the operations whose waits bind the rank. `idle` are the longest idle stretches of its
    device: see `LeafSites.longest`.
    """

    windows: Windows
    spells: Windows
    parts: pl.DataFrame
    binding: Ints
    idle: pl.DataFrame


def tree(
    host_op: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame, flow: pl.DataFrame, step: pl.DataFrame,
    gc: pl.DataFrame, stack: pl.DataFrame, waits: pl.DataFrame = NO_WAITS, samples: pl.DataFrame = NO_SAMPLES,
    *, begun: bool = False, longest: int = LONGEST,
) -> RankLeaves:  # fmt: skip
    """The leaves of a rank, computed from its tables.

    `waits` has a row for each operation: `comm_id`, `split` (whether wait and transfer can be told apart), `wait_ns`
    (its wait from the start on) and `last` (the awaited rank). `samples` are moments of the stepping thread
    (`start_ns`), each with the line of the user's code (`line`) and the time for which it stands (`ns`).
    `begun`: the job had made steps before the capture. `longest` is how many idle stretches are told.
    """
    first, last = _span(host_op, kernel, comm_op, step)
    launched = pl.concat([kernel.select("correlation", "name"), comm_op.select("correlation", "name")]).drop_nulls()
    calls = CallTrees(host_op, gc, stack, first, last, launched, flow.filter(pl.col("kind") == "launch"))
    tasks = tasks_of(kernel, comm_op, flow, calls)
    windows = windows_of(step, tasks.of_device, partial(capture_extent, step, kernel, comm_op, host_op.lazy()))
    told = Waits.of(comm_op, waits)
    spells = spells_of(windows, told)
    sites = LeafSites(calls, spells, kernel, comm_op, samples)
    if not len(windows):
        bound = np.zeros(0, dtype=np.int64)
        return RankLeaves(windows=windows, spells=spells, parts=_NOTHING, binding=bound, idle=NO_STRETCHES)
    done, who = _ends(comm_op), (calls, stepping_thread(calls))
    if not len(tasks):
        host = Host(calls, device=False, begun=begun)
        start, end = windows.start, windows.end
        parts = host.doing(start, end, np.full(len(start), host.main), np.arange(len(start)))
        parts, within = within_operations(parts, comm_op["start_ns"].to_numpy(), done)
        parted = pl.concat([sites.frame(parts), sites.operations(within, comm_op, told)])
        # The wait ends where a part of the operation begins to be transfer, or within the part.
        ends = np.clip(told.until[within.what], within.start, within.start + within.ns)
        bound = binding(within.what, ends, told, tasks, done, who)
        return RankLeaves(windows=windows, spells=spells, parts=parted, binding=bound, idle=NO_STRETCHES)
    begin, stop = int(windows.start[0]), int(windows.end[-1])
    busy = union_of_intervals(tasks.start, tasks.end)
    gaps = cut_at(*_outside(busy, begin, stop), windows.start[1:])
    with spare_thread() as other:
        work = other.submit(_busy, tasks, comm_op, windows, sites, told)
        parts = idle_parts(gaps.start, gaps.end, tasks, calls, Host(calls, device=True, begun=begun), busy)
        idle, longest_ones = sites.frame(parts), sites.longest(parts, longest)
    own, comm, ends = work.result()
    bound = binding(comm, ends, told, tasks, done, who)
    return RankLeaves(windows=windows, spells=spells, parts=pl.concat([own, idle]), binding=bound, idle=longest_ones)


def _ends(rows: pl.DataFrame) -> Ints:
    return (rows["start_ns"] + rows["dur_ns"]).to_numpy()


def _outside(busy: Intervals, begin: int, stop: int) -> tuple[Ints, Ints]:
    free = union_of_intervals(np.array([begin]), np.array([stop])) - busy
    return free.starts, free.ends


def _span(*tables: pl.DataFrame) -> tuple[int, int]:
    ends = [
        table.select(pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end")).row(0)
        for table in tables
        if table.height
    ]
    return (min(one[0] for one in ends), max(one[1] for one in ends)) if ends else (0, 0)


def _busy(
    tasks: Tasks, comm_op: pl.DataFrame, windows: Windows, sites: LeafSites, waits: Waits
) -> tuple[pl.DataFrame, Ints, Ints]:
    """The leaves of the device's work: compute before the rest; of one class the earlier start keeps the time.

    The second and third result are the operations of exposed waits, and where each wait's stretch ends.
    """
    hidden, frames, waiting, ends = EMPTY, [], [], []
    begin, stop = int(windows.start[0]), int(windows.end[-1])
    for part in range(len(PARTS)):
        mine = np.flatnonzero((tasks.part == part) & (tasks.end > begin) & (tasks.start < stop))
        seen = np.maximum.accumulate(np.append([begin], tasks.end[mine]))[:-1]
        low = np.maximum(tasks.start[mine], seen)
        high = np.minimum(tasks.end[mine], stop)
        keep = high > low
        low, high, mine = low[keep], high[keep], mine[keep]
        bare = stretches_outside(low, high, hidden.starts, hidden.ends)
        pieces = cut_at(bare.start, bare.end, windows.start[1:])
        task = mine[bare.of[pieces.of]]
        waited = np.zeros(len(task), dtype=np.int64)
        with_wait = np.flatnonzero(tasks.comm[task] != NONE)
        until = waits.until[tasks.comm[task[with_wait]]]
        waited[with_wait] = np.clip(until - pieces.start[with_wait], 0, pieces.lengths[with_wait])
        own = Spans(task=task, start=pieces.start + waited, ns=pieces.lengths - waited)
        frames.append(sites.tasks(tasks, own, waits))
        some = np.flatnonzero(waited)
        own = Spans(task=task[some], start=pieces.start[some], ns=waited[some])
        frames.append(sites.waits(tasks, own, comm_op, waits))
        waiting.append(tasks.comm[own.task])
        ends.append(own.start + own.ns)
        hidden = hidden | union_of_intervals(low, high)
    return pl.concat(frames), np.concatenate(waiting), np.concatenate(ends)


_NOTHING = pl.DataFrame(schema=SCHEMA)


def typical(windows: Windows) -> int:
    """The index of the step of lower median length; with four or more steps, never the first step."""
    lengths = windows.lengths
    first = 1 if len(lengths) >= 4 else 0
    order = np.argsort(lengths[first:], kind="stable") + first
    return int(order[(len(order) - 1) // 2])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavesOfRank:
    """The leaves of a rank, and their sums by spell; `spells` is None for a rank without steps.

    `idle` are the longest stretches in which its device was idle, by time.
    """

    rows: tuple[LeafTime, ...] = ()
    idle: tuple[IdleStretch, ...] = ()
    spells: RankSpells | None = None


def _tree_of(rank: RankTables, waits: pl.DataFrame, longest: int) -> RankLeaves:
    seen = seen_of(rank)
    samples = _placed(seen.moments) if seen else NO_SAMPLES
    begun = told_before(rank.table("setting")).get("steps", 0) > 0
    tables = {name: rank.table(name) for name in _TABLES}
    return tree(**tables, waits=waits, samples=samples, begun=begun, longest=longest)


def idle_stretches(rank: RankTables, most: int) -> tuple[IdleStretch, ...]:
    """The longest stretches in which a rank's device was idle, by time."""
    return tuple(_idle(rank.rank, _tree_of(rank, NO_WAITS, most)))


def _idle(rank: int, made: RankLeaves) -> Iterator[IdleStretch]:
    steps = made.windows.step[made.windows.of(made.idle["start_ns"].to_numpy())]
    for step, (start, ns, leaf, what, place) in zip(steps.tolist(), made.idle.iter_rows(), strict=True):
        yield IdleStretch(
            rank=rank, step=None if step == NONE else step, leaf=LEAVES[leaf], what=what, place=place, start_ns=start,
            ns=ns,
        )  # fmt: skip


def leaves(rank: RankTables, waits: pl.DataFrame = NO_WAITS) -> LeavesOfRank:
    """The leaf of each nanosecond of a rank's steps, summed; `waits` is as for `tree`."""
    made = _tree_of(rank, waits, LONGEST)
    windows = made.windows
    if not len(windows):
        return LeavesOfRank()
    parts = _fewer_awaited(made.parts).with_columns(step=pl.Series(made.spells.step)[made.parts["spell"]])
    middle = typical(windows)
    long_ = np.flatnonzero(windows.lengths >= LONG_STEP * windows.lengths[middle])
    sums = parts.group_by(LEAF, maintain_order=True).agg(
        pl.col("ns").sum().alias("total"),
        pl.col("ns").filter(pl.col("step") == middle).sum().alias("one"),
        pl.col("ns").filter(pl.col("step").is_in(long_.tolist())).sum().alias("long"),
    )
    sums = sums.sort("total", *LEAF, descending=[True] + [False] * len(LEAF))
    few = (pl.int_range(pl.len()).over("leaf", "awaited") < MOST_PLACES) & (
        pl.col("total") >= LEAST * int(windows.lengths.sum())
    )
    cut = sums.with_columns(
        pl.when(few).then("how").otherwise(AT[How.OTHERS]).alias("kept_how"),
        *(pl.when(few).then(name).otherwise(pl.lit("")).alias(f"kept_{name}") for name in ("what", "place")),
    )
    rows = cut.group_by(_KEPT, maintain_order=True).agg(pl.col("total", "one", "long").sum())
    row_of = cut.join(rows.select(_KEPT).with_row_index("row"), on=_KEPT, how="left").select(*LEAF, "row")
    comm_id = rank.table("comm_op")["comm_id"]
    return LeavesOfRank(
        rows=tuple(
            LeafTime(
                rank=rank.rank, leaf=LEAVES[leaf], how=HOWS[how], what=what, place=place,
                awaited=None if awaited == NONE else awaited, total_ns=total, step_ns=one, long_ns=slow,
            )
            for leaf, how, what, place, awaited, total, one, slow in rows.iter_rows()
        ),
        idle=tuple(_idle(rank.rank, made)),
        spells=rank_spells(windows, made.spells, parts.join(row_of, on=LEAF, how="left"), comm_id[made.binding]),
    )  # fmt: skip


def _placed(moments: pl.DataFrame) -> pl.DataFrame:
    """Samples for `tree`: a late sample, for which a call kept the interpreter to itself, lies in the middle of it."""
    late = pl.col("ns") > pl.col("ns").min()
    moment = pl.col("start_ns") - pl.when(late).then(pl.col("ns") // 2).otherwise(0)
    return moments.select(moment.alias("start_ns"), pl.col("named").alias("line"), "ns")


def _fewer_awaited(parts: pl.DataFrame) -> pl.DataFrame:
    """The rows with only the longest-awaited ranks named; in a large job a rank waits for hundreds of ranks."""
    longest = parts.filter(pl.col("awaited") != NONE).group_by("awaited").agg(pl.col("ns").sum())
    if longest.height <= MOST_AWAITED:
        return parts
    named = longest.sort("ns", "awaited", descending=[True, False]).head(MOST_AWAITED)["awaited"]
    return parts.with_columns(pl.when(pl.col("awaited").is_in(named.implode())).then("awaited").otherwise(NONE))


@per_rank(needs={"host_op": _HOST_OP, "kernel": _KERNEL, "comm_op": _COMM_OP})
def needed(rank: RankTables) -> None:
    """Declares the columns that `leaves` reads; `leaves` is called once it is known for which ranks a rank waited."""
