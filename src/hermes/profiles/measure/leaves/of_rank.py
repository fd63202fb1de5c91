"""The leaves of one rank: what its device did, what its host did in the gaps, by step, operator and place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import EMPTY, Intervals, Ints, flat
from hermes.knowledge.kernel_names import plain
from hermes.knowledge.leaf_names import leaf_of_operator
from hermes.knowledge.user_code import frame_of
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.profiles.measure.leaves.calls import LEAVES, NONE, NUMBER, Bools, Calls
from hermes.profiles.measure.leaves.idle import HOWS, Host, Parts, idle_parts
from hermes.profiles.measure.leaves.pieces import Overlay, cut_at, left_of
from hermes.profiles.measure.leaves.tasks import PARTS, Tasks, tasks_of
from hermes.profiles.measure.leaves.windows import Windows, windows_of
from hermes.profiles.measure.registry import RankTables, per_rank

MOST_PLACES, LEAST = 32, 0.0005
"""Rows of one leaf that a rank tells apart: the longest, as far as each takes such a part of its steps. The others are
one row: no leaf is cut, whatever it is of."""
MOST_AWAITED = 32
"""Ranks that a rank waits for and names; the others are one."""
LONG_STEP = 1.5
"""A step is long from so many times the typical one."""
_AT = {how: place for place, how in enumerate(HOWS)}
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
"""Of a rank alone: nothing is known of the others."""
NOBODY = pl.DataFrame(schema={"start_ns": pl.Int64, "end_ns": pl.Int64})
"""No other rank waited for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The leaves of a rank by step: the columns of `_SCHEMA`, where `step` is a place in `windows`."""

    windows: Windows
    parts: pl.DataFrame


def tree(
    host_op: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame, flow: pl.DataFrame, step: pl.DataFrame,
    gc: pl.DataFrame, stack: pl.DataFrame, waits: pl.DataFrame = NO_WAITS, held: pl.DataFrame = NOBODY,
) -> Tree:  # fmt: skip
    """The leaves of a rank, of its tables.

    `waits` has of its communication `comm_id`, `split` (whether waiting and transfer can be told apart), `wait_ns` (how
    long from its start on it waited for another rank) and `last` (for which one). `held` has one row for each time that
    another rank waited for this one: `start_ns` and `end_ns`, on the clock of this rank.
    """
    first, last = _span(host_op, kernel, comm_op, step)
    launched = pl.concat([kernel.select("correlation", "name"), comm_op.select("correlation", "name")]).drop_nulls()
    calls = Calls(host_op, gc, stack, first, last, launched, flow.filter(pl.col("kind") == "launch"))
    tasks = tasks_of(kernel, comm_op, flow, calls)
    windows = windows_of(step, tasks, calls)
    sites = Sites(calls, Overlay(held["start_ns"].to_numpy(), held["end_ns"].to_numpy()))
    if not len(windows):
        return Tree(windows=windows, parts=_NOTHING)
    if not len(tasks):
        host = Host(calls, device=False)
        start, end = windows.start, windows.end
        parts = host.doing(start, end, np.full(len(start), host.main), np.arange(len(start)))
        return Tree(windows=windows, parts=sites.frame(parts, parts.of))
    begin, stop = int(windows.start[0]), int(windows.end[-1])
    busy = flat(tasks.start, tasks.end)
    told = Waits.of(comm_op, waits)
    gaps = cut_at(*_outside(busy, begin, stop), windows.start[1:])
    parts = idle_parts(gaps.start, gaps.end, tasks, calls, Host(calls, device=True), busy)
    idle = sites.frame(parts, windows.of(gaps.start)[parts.of])
    return Tree(windows=windows, parts=pl.concat([_busy(tasks, kernel, comm_op, windows, sites, told), idle]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Of each row of `comm_op`: until when it waited (its start if it did not), for whom, and whether that is told."""

    until: Ints
    last: Ints
    split: Bools

    @classmethod
    def of(cls, comm_op: pl.DataFrame, waits: pl.DataFrame) -> Waits:
        """In the order of the table."""
        rows = comm_op.select("comm_id", "start_ns").join(waits, on="comm_id", how="left", maintain_order="left")
        until = rows.select(pl.col("start_ns") + pl.col("wait_ns").fill_null(0))["start_ns"]
        return cls(
            until=until.to_numpy(), last=rows["last"].cast(pl.Int64).fill_null(NONE).to_numpy(),
            split=rows["split"].fill_null(value=False).to_numpy(),
        )  # fmt: skip


def _outside(busy: Intervals, begin: int, stop: int) -> tuple[Ints, Ints]:
    free = flat(np.array([begin]), np.array([stop])) - busy
    return free.starts, free.ends


def _span(*tables: pl.DataFrame) -> tuple[int, int]:
    ends = [
        table.select(pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end")).row(0)
        for table in tables
        if table.height
    ]
    return (min(one[0] for one in ends), max(one[1] for one in ends)) if ends else (0, 0)


def _busy(
    tasks: Tasks, kernel: pl.DataFrame, comm_op: pl.DataFrame, windows: Windows, sites: Sites, waits: Waits
) -> pl.DataFrame:
    """The leaves of the device's work: compute before the rest; of one class the earlier start keeps the time."""
    hidden, frames = EMPTY, []
    begin, stop = int(windows.start[0]), int(windows.end[-1])
    for part in range(len(PARTS)):
        mine = np.flatnonzero((tasks.part == part) & (tasks.end > begin) & (tasks.start < stop))
        seen = np.maximum.accumulate(np.append([begin], tasks.end[mine]))[:-1]
        low = np.maximum(tasks.start[mine], seen)
        high = np.minimum(tasks.end[mine], stop)
        keep = high > low
        low, high, mine = low[keep], high[keep], mine[keep]
        bare = left_of(low, high, hidden.starts, hidden.ends)
        pieces = cut_at(bare.start, bare.end, windows.start[1:])
        task = mine[bare.of[pieces.of]]
        step = windows.of(pieces.start)
        waited = np.zeros(len(task), dtype=np.int64)
        with_wait = np.flatnonzero(tasks.comm[task] != NONE)
        until = waits.until[tasks.comm[task[with_wait]]]
        waited[with_wait] = np.clip(until - pieces.start[with_wait], 0, pieces.lengths[with_wait])
        own = Spans(task=task, start=pieces.start + waited, ns=pieces.lengths - waited, step=step)
        frames.append(sites.tasks(tasks, own, kernel, comm_op, waits))
        some = np.flatnonzero(waited)
        own = Spans(task=task[some], start=pieces.start[some], ns=waited[some], step=step[some])
        frames.append(sites.waits(tasks, own, comm_op, waits))
        hidden = hidden | flat(low, high)
    return pl.concat(frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Stretches of tasks: the place of each task, when it begins, how long it is, and the place of its step."""

    task: Ints
    start: Ints
    ns: Ints
    step: Ints


class Sites:
    """The names of what parts are of, where they lie, and how long other ranks waited meanwhile."""

    def __init__(self, calls: Calls, held: Overlay) -> None:
        self.calls, self._held = calls, held

    def frame(self, parts: Parts, step: Ints) -> pl.DataFrame:
        """The sums of parts by step, leaf, operator and place."""
        keep = parts.ns > 0
        start, ns = parts.start[keep], parts.ns[keep]
        rows = {
            "step": step[keep], "leaf": parts.leaf[keep], "how": parts.how[keep], "what": self._names(parts.what[keep]),
            "place": self.place(parts.site[keep]), "awaited": np.full(len(ns), NONE), "ns": ns,
            "held": self._held.on(start, ns),
        }  # fmt: skip
        return _summed(pl.DataFrame(rows, schema=_SCHEMA))

    def waits(self, tasks: Tasks, own: Spans, comm_op: pl.DataFrame, waits: Waits) -> pl.DataFrame:
        """The same for stretches in which tasks wait for another rank."""
        comm, count = tasks.comm[own.task], len(own.task)
        rows = {
            "step": own.step, "leaf": np.full(count, NUMBER[Leaf.WAIT]), "how": np.full(count, _AT[How.CALL]),
            "what": comm_op["op"].fill_null("")[comm], "place": self.place(self._issue(tasks, own.task)),
            "awaited": waits.last[comm], "ns": own.ns, "held": self._held.on(own.start, own.ns),
        }  # fmt: skip
        return _summed(pl.DataFrame(rows, schema=_SCHEMA))

    def _issue(self, tasks: Tasks, at: Ints) -> Ints:
        """The innermost call in which each task was issued."""
        moment = tasks.issue[at]
        return np.where(moment != NONE, self.calls.innermost(moment), NONE)

    def tasks(
        self, tasks: Tasks, own: Spans, kernel: pl.DataFrame, comm_op: pl.DataFrame, waits: Waits
    ) -> pl.DataFrame:
        """The same for all other stretches of tasks."""
        held = self._held.on(own.start, own.ns)
        sums = (
            pl.DataFrame({"task": own.task, "step": own.step, "ns": own.ns, "held": held})
            .group_by("task", "step", maintain_order=True)
            .agg(pl.col("ns", "held").sum())
        )
        at = sums["task"].to_numpy()
        issue = self._issue(tasks, at)
        top = np.where(issue != NONE, self.calls.operator[np.maximum(issue, 0)], NONE) if len(self.calls) else issue
        about = _about(tasks, at, kernel, comm_op).with_columns(
            pl.Series("operator", self._names(top), dtype=pl.String)
        )
        told = {row: (NUMBER[_leaf_of(*row)], row[2] or plain(row[1])) for row in about.unique().iter_rows()}
        named = [told[row] for row in about.iter_rows()]
        untold = (tasks.comm[at] != NONE) & ~(waits.split[tasks.comm[at]] if len(waits.split) else False)
        leaf = np.array([one for one, _ in named], dtype=np.int64)
        rows = {
            "step": sums["step"], "leaf": np.where(untold, NUMBER[Leaf.COMMUNICATION], leaf),
            "how": np.full(len(at), _AT[How.CALL]), "what": [what for _, what in named], "place": self.place(issue),
            "awaited": np.full(len(at), NONE), "ns": sums["ns"], "held": sums["held"],
        }  # fmt: skip
        return _summed(pl.DataFrame(rows, schema=_SCHEMA))

    def _names(self, calls: Ints) -> list[str]:
        if not len(self.calls):
            return [""] * len(calls)
        return self._said(np.where(calls != NONE, self.calls.name[np.maximum(calls, 0)], NONE))

    def _said(self, lines: Ints) -> list[str]:
        """The names of places in `lines`, a frame of Python as `file:line`."""
        told = {code: self._name(code) for code in np.unique(lines).tolist()}
        return [told[code] for code in lines.tolist()]

    def _name(self, code: int) -> str:
        name = self.calls.lines[code] if code != NONE else ""
        frame = frame_of(name)
        return frame.said if frame else name

    def place(self, calls: Ints) -> list[str]:
        """The user's line that each call lies in, else the range, else the outermost operator."""
        own = self.calls
        if not len(own):
            return [""] * len(calls)
        at = np.maximum(calls, 0)
        call = np.where(own.range[at] != NONE, own.range[at], own.operator[at])
        name = np.where(call != NONE, own.name[np.maximum(call, 0)], NONE)
        line = np.where(own.line[at] != NONE, own.line[at], name)
        return self._said(np.where(calls != NONE, line, NONE))


def _about(tasks: Tasks, at: Ints, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> pl.DataFrame:
    """Part, name, type and unit of tasks; of communication the operation."""
    of_kernel = kernel.select(pl.col("name", "type", "unit").fill_null(""))
    of_comm = comm_op.select(
        pl.col("name").fill_null(""), pl.col("op").fill_null("").alias("type"), pl.lit("").alias("unit")
    )
    both = pl.concat([of_kernel, of_comm])
    rows = both[np.where(tasks.kernel[at] != NONE, tasks.kernel[at], kernel.height + tasks.comm[at])]
    return rows.select(pl.Series("part", tasks.part[at]), "name", "type", "unit")


def _leaf_of(part: int, name: str, kind: str, unit: str, operator: str) -> Leaf:
    if PARTS[part] == "comm":
        return Leaf.TRANSFER
    if PARTS[part] == "copy":
        return Leaf.EXPOSED_COPY
    if unit == "ai_cpu":
        return Leaf.AI_CPU
    return leaf_of_operator(*(word for word in (kind, name, operator) if word))


_SCHEMA = {
    "step": pl.Int64, "leaf": pl.Int64, "how": pl.Int64, "what": pl.String, "place": pl.String,
    "awaited": pl.Int64, "ns": pl.Int64, "held": pl.Int64,
}  # fmt: skip
_LEAF = ["leaf", "how", "what", "place", "awaited"]
_KEY = ["step", *_LEAF]
_NOTHING = pl.DataFrame(schema=_SCHEMA)


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(_KEY, maintain_order=True).agg(pl.col("ns", "held").sum())


def typical(windows: Windows) -> int:
    """The place of the step of lower median length; the first step of four or more is not it."""
    lengths = windows.lengths
    first = 1 if len(lengths) >= 4 else 0
    order = np.argsort(lengths[first:], kind="stable") + first
    return int(order[(len(order) - 1) // 2])


def leaves(rank: RankTables, waits: pl.DataFrame = NO_WAITS, held: pl.DataFrame = NOBODY) -> tuple[LeafTime, ...]:
    """Where each nanosecond of the steps of a rank went; `waits` and `held` are as for `tree`."""
    made = tree(**{name: rank.table(name) for name in _TABLES}, waits=waits, held=held)
    windows, parts = made.windows, made.parts
    if not len(windows):
        return ()
    middle = typical(windows)
    long_ = np.flatnonzero(windows.lengths >= LONG_STEP * windows.lengths[middle])
    sums = parts.group_by(_LEAF, maintain_order=True).agg(
        pl.col("ns").sum().alias("total"),
        pl.col("ns").filter(pl.col("step") == middle).sum().alias("one"),
        pl.col("ns").filter(pl.col("step").is_in(long_.tolist())).sum().alias("long"),
        pl.col("held").sum(),
    )
    sums = _fewer_awaited(sums)
    sums = sums.sort("total", *_LEAF, descending=[True] + [False] * len(_LEAF))
    few = (pl.int_range(pl.len()).over("leaf", "awaited") < MOST_PLACES) & (
        pl.col("total") >= LEAST * int(windows.lengths.sum())
    )
    cut = sums.with_columns(
        pl.when(few).then("how").otherwise(_AT[How.OTHERS]).alias("how"),
        *(pl.when(few).then(name).otherwise(pl.lit("")).alias(name) for name in ("what", "place")),
    )
    cut = cut.group_by(_LEAF, maintain_order=True).agg(pl.col("total", "one", "long", "held").sum())
    return tuple(
        LeafTime(
            rank=rank.rank, leaf=LEAVES[leaf], how=HOWS[how], what=what, place=place,
            awaited=None if awaited == NONE else awaited, total_ns=total, step_ns=one, held_ns=held_ns, long_ns=slow,
        )
        for leaf, how, what, place, awaited, total, one, slow, held_ns in cut.iter_rows()
    )  # fmt: skip


def _fewer_awaited(sums: pl.DataFrame) -> pl.DataFrame:
    """The rows, in which the ranks that are waited for longest are named; in a large job a rank waits for hundreds."""
    longest = sums.filter(pl.col("awaited") != NONE).group_by("awaited").agg(pl.col("total").sum())
    if longest.height <= MOST_AWAITED:
        return sums
    named = longest.sort("total", "awaited", descending=[True, False]).head(MOST_AWAITED)["awaited"]
    awaited = pl.when(pl.col("awaited").is_in(named.implode())).then("awaited").otherwise(NONE).alias("awaited")
    return (
        sums.with_columns(awaited)
        .group_by(_LEAF, maintain_order=True)
        .agg(pl.col("total", "one", "long", "held").sum())
    )


@per_rank(needs={"host_op": _HOST_OP, "kernel": _KERNEL, "comm_op": _COMM_OP})
def needed(rank: RankTables) -> None:
    """Names the columns that `leaves` reads, which is called once it is known for whom a rank waited."""
