"""The calls of all threads of a rank as trees on one axis: which is innermost at each moment, and what each is part of.

Threads stand one behind the other on the axis (`Axis`), so one search serves all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.base.intervals import Ints
from hermes.knowledge.blocking import is_copy
from hermes.knowledge.leaf_names import launches, leaf_of_call, leaf_of_event, marks_collective, waits
from hermes.knowledge.user_code import is_own
from hermes.model.leaf import Leaf
from hermes.model.tables import RUNTIME_KINDS

NONE = -1
LEAVES = tuple(Leaf)
"""Leaves by their number in arrays."""
NUMBER = {leaf: place for place, leaf in enumerate(LEAVES)}
_ROUNDS = 3
"""How often calls that overlap without one in the other are cut, before those that still do are clipped."""
_KINDS = ("op", "python", "mark", "step", "enqueue", "dequeue", *RUNTIME_KINDS)
RANGES = ("mark", "step")
FIRST_NS, FIRST_TIMES = 1_000_000, 20
"""A first call sets something up where it takes a millisecond, and 20 times what later ones of its name take; the first
launch of a kernel loads its code by the same measure."""

Bools = NDArray[np.bool_]
NO_ARROWS = pl.DataFrame(schema={"src_pid": pl.Int64, "src_tid": pl.Int64, "src_ns": pl.Int64})


@dataclass(frozen=True, slots=True)
class Axis:
    """Puts the times of each thread on a stretch of its own."""

    first_ns: int
    stride: int
    threads: tuple[tuple[int | None, int | None], ...]

    def at(self, thread: Ints, when: Ints) -> Ints:
        """Moments of threads on the axis; those outside of the capture stay on the edge of the thread's stretch."""
        inside: Ints = np.clip(when - self.first_ns, 0, self.stride - 1)
        return np.asarray(thread * self.stride + inside, dtype=np.int64)


class Calls:
    """Calls in the order of the axis, each behind the call that holds it.

    `start`, `end` are on the axis, `parent` is a place or -1, `depth` 0 for outermost calls. `name` and `kind` are
    numbers of `names` and `kinds`. `launched` has `correlation` and `name` of the tasks of the device, `arrows` go to
    such tasks.
    """

    def __init__(
        self, host_op: pl.DataFrame, gc: pl.DataFrame, stack: pl.DataFrame, first_ns: int, last_ns: int,
        launched: pl.DataFrame, arrows: pl.DataFrame = NO_ARROWS,
    ) -> None:  # fmt: skip
        rows = _rows(host_op, gc)
        self._launched = launched.unique("correlation", keep="first", maintain_order=True)
        self._arrows = arrows
        threads = rows.select("pid", "tid").unique().sort("pid", "tid", nulls_last=True)
        self.axis = Axis(first_ns, last_ns - first_ns + 2, tuple(threads.iter_rows()))
        rows = rows.join(threads.with_row_index("thread"), on=["pid", "tid"], how="left", nulls_equal=True)
        thread = rows["thread"].cast(pl.Int64).to_numpy()
        start = self.axis.at(thread, rows["start_ns"].to_numpy())
        end = self.axis.at(thread, (rows["start_ns"] + rows["dur_ns"]).to_numpy())
        order = np.lexsort((-end, start))
        rows = rows[order]
        self.rows, self.start = rows, start[order]
        self.end, self.parent, self.depth = _nested(self.start, end[order])
        self.thread = thread[order]
        self.names, self.name = _codes(rows["name"])
        self.kinds, self.kind = _codes(rows["kind"])
        own = {number: line for number, line in _own_lines(stack) if line}
        self._stacks = {number: len(self.names) + place for place, number in enumerate(own)}
        self.lines = [*self.names, *own.values()]

    def __len__(self) -> int:
        return len(self.start)

    def of_kind(self, *kinds: str) -> Bools:
        """Which calls are of one of these kinds."""
        return np.isin(self.kind, [place for place, kind in enumerate(self.kinds) if kind in kinds])

    def by_name(self, test: Callable[[str], bool]) -> Bools:
        """Which calls have a name for which the test holds."""
        return np.array([test(name) for name in self.names], dtype=bool)[self.name]

    @cached_property
    def levels(self) -> list[Ints]:
        """The places of the calls of each depth, outermost first."""
        order = np.argsort(self.depth, kind="stable")
        edges = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=-1)) + 2))
        return [order[low:high] for low, high in itertools.pairwise(edges)]

    def inherited(self, own: Ints, *, outermost: bool) -> Ints:
        """What each call takes from those around it, outermost or innermost first; -1 where none has anything."""
        found = own.copy()
        for level in self.levels[1:]:
            above = found[self.parent[level]]
            mine = own[level]
            first, second = (above, mine) if outermost else (mine, above)
            found[level] = np.where(first != NONE, first, second)
        return found

    @cached_property
    def places(self) -> Ints:
        """The place of each call itself."""
        return np.arange(len(self), dtype=np.int64)

    @cached_property
    def self_ns(self) -> Ints:
        """How long each call lasts without those directly inside it."""
        held = self.parent != NONE
        inner = np.bincount(self.parent[held], weights=(self.end - self.start)[held], minlength=len(self))
        return np.asarray(self.end - self.start - inner.astype(np.int64), dtype=np.int64)

    @cached_property
    def special(self) -> Ints:
        """The outermost call around each (or itself) whose name says what all inside it is; -1 without."""
        return self.inherited(np.where(self.telling, self.places, NONE), outermost=True)

    @cached_property
    def telling(self) -> Bools:
        """Which calls have a name that says what all inside it is; a library's range may have one, a step never."""
        return self.by_name(lambda name: leaf_of_event(name) is not None) & ~self.of_kind("step")

    @cached_property
    def launching(self) -> Bools:
        """Which calls hold one that hands work to the device, or are one."""
        linked = (
            self.rows["correlation"].is_in(self._launched["correlation"].implode()).fill_null(value=False).to_numpy()
        )
        called = self.of_kind(*RUNTIME_KINDS) & (linked | self.by_name(launches))
        moments = self.start[called | self.of_kind("enqueue", "dequeue")]
        if not self.of_kind(*RUNTIME_KINDS).any():
            moments = np.sort(np.concatenate([moments, self._arrow_moments()]))
        inside = np.searchsorted(moments, self.end) - np.searchsorted(moments, self.start)
        return np.asarray(inside > 0, dtype=bool)

    def _arrow_moments(self) -> Ints:
        """Where on the axis arrows to tasks begin: they tell the launches where no call of the runtime was recorded."""
        threads = pl.DataFrame(self.axis.threads, schema={"src_pid": pl.Int64, "src_tid": pl.Int64}, orient="row")
        rows = self._arrows.join(threads.with_row_index("thread"), on=["src_pid", "src_tid"], how="inner")
        return self.axis.at(rows["thread"].cast(pl.Int64).to_numpy(), rows["src_ns"].to_numpy())

    @cached_property
    def block(self) -> Ints:
        """The outermost operator around each (or itself) that launches nothing; -1 for others."""
        own = np.where(self.of_kind("op") & ~self.launching, self.places, NONE)
        found = own.copy()
        passes = self.of_kind("op", "python") & ~self.launching
        for level in self.levels[1:]:
            above = self.parent[level]
            found[level] = np.where(passes[level] & passes[above] & (found[above] != NONE), found[above], own[level])
        return found

    @cached_property
    def operator(self) -> Ints:
        """The outermost operator around each (or itself); -1 without."""
        return self.inherited(np.where(self.of_kind("op"), self.places, NONE), outermost=True)

    @cached_property
    def range(self) -> Ints:
        """The innermost range of the user around each (or itself), as `line` tells the line; -1 without.

        Marks of steps are none, and neither are those that a library puts around a collective.
        """
        own = self.of_kind("mark") & ~self.by_name(marks_collective)
        return self._with_forward(self.inherited(np.where(own, self.places, NONE), outermost=False))

    def _with_forward(self, found: Ints) -> Ints:
        """What was found, and for calls of the backward pass without it what was found for their forward pass."""
        of_forward = np.where(self.forward != NONE, found[np.maximum(self.forward, 0)], NONE) if len(self) else found
        return np.where(found == NONE, of_forward, found)

    @cached_property
    def line(self) -> Ints:
        """The innermost line of the user's code around each (or itself), as a place in `lines`; -1 without.

        It is told by frames of Python, or by the stack that the profiler kept with an operator. What autograd does
        for an operator belongs to the line of that operator.
        """
        frames = self.of_kind("python") & self.by_name(is_own)
        own = np.where(frames, self.name, NONE)
        stacks = self.rows["stack_id"].replace_strict(self._stacks, default=NONE, return_dtype=pl.Int64)
        told = stacks.fill_null(NONE).to_numpy()
        return self._with_forward(self.inherited(np.where(own == NONE, told, own), outermost=False))

    @cached_property
    def forward(self) -> Ints:
        """Of each call in the backward pass the operator of the forward pass that it belongs to; -1 for others.

        Autograd numbers operators thread by thread. Where two threads bear one number, nothing is told.
        """
        rows = self.rows.select("sequence", "forward_tid").with_columns(
            pl.Series("at", self.places), pl.Series("thread", self.thread)
        ).filter(pl.col("sequence").is_not_null())  # fmt: skip
        ahead = rows.filter(pl.col("forward_tid").is_null()).group_by("sequence").agg(
            pl.col("at").min().alias("forward"), pl.col("thread").n_unique().alias("threads")
        )  # fmt: skip
        back = rows.filter(pl.col("forward_tid").is_not_null())
        pairs = back.join(ahead.filter(pl.col("threads") == 1), on="sequence", how="inner")
        own = np.full(len(self), NONE, dtype=np.int64)
        own[pairs["at"].to_numpy()] = pairs["forward"].to_numpy()
        return self.inherited(own, outermost=False)

    @cached_property
    def first(self) -> Bools:
        """Which calls are the first of their name, and take far longer than the later ones."""
        wanted = self.of_kind("op", *RUNTIME_KINDS)
        rows = pl.DataFrame({"at": self.places[wanted], "name": self.name[wanted], "own": self.self_ns[wanted],
                             "when": self.rows["start_ns"].to_numpy()[wanted]})  # fmt: skip
        found = rows.sort("when").group_by("name", maintain_order=True).agg(
            pl.col("at").first(), pl.col("own").first(), pl.col("own").slice(1).median().alias("later"), pl.len()
        )  # fmt: skip
        found = found.filter((pl.col("len") > 2) & (pl.col("own") >= FIRST_NS)
                             & (pl.col("own") >= FIRST_TIMES * pl.col("later")))  # fmt: skip
        made = self._loading
        made[found["at"].to_numpy()] = True
        return made

    @property
    def _loading(self) -> Bools:
        """Which calls launch a kernel for the first time, and take far longer than other launches: they load code."""
        rows = pl.DataFrame({"at": self.places, "call": self.name, "own": self.self_ns,
                             "when": self.rows["start_ns"], "correlation": self.rows["correlation"]})  # fmt: skip
        rows = (
            rows.filter(self.of_kind(*RUNTIME_KINDS))
            .join(self._launched, on="correlation", how="inner")
            .with_columns(pl.col("own").median().over("call").alias("usual"), pl.len().over("call").alias("count"))
        )
        first = rows.sort("when").unique("name", keep="first", maintain_order=True)
        first = first.filter((pl.col("count") > 2) & (pl.col("own") >= FIRST_NS)
                             & (pl.col("own") >= FIRST_TIMES * pl.col("usual")))  # fmt: skip
        made = np.zeros(len(self), dtype=bool)
        made[first["at"].to_numpy()] = True
        return made

    @cached_property
    def copying(self) -> Bools:
        """Which calls copy, by their names."""
        return self.by_name(is_copy)

    @cached_property
    def weak(self) -> Bools:
        """Which calls are none: ranges whose names tell nothing, and frames that wait for another thread."""
        return (self.of_kind(*RANGES) & ~self.telling) | (self.of_kind("python") & self.by_name(waits))

    @cached_property
    def runtime_leaf(self) -> Ints:
        """The number of the leaf of runtime calls that do more than launch; -1 for others."""
        told = [leaf_of_call(name) for name in self.names]
        by_name = np.array([NONE if leaf is None else NUMBER[leaf] for leaf in told], dtype=np.int64)
        return np.where(self.of_kind(*RUNTIME_KINDS), by_name[self.name], NONE)

    @cached_property
    def timeline(self) -> tuple[Ints, Ints, Ints]:
        """Starts and ends of the stretches of all threads, and the call that is innermost in each."""
        return _innermost(self.start, self.end, self.parent, self.depth)

    def innermost(self, moments: Ints) -> Ints:
        """The innermost call at each moment of the axis; -1 where no call is open."""
        starts, ends, who = self.timeline
        if not len(starts):
            return np.full(len(moments), NONE, dtype=np.int64)
        at = np.searchsorted(starts, moments, side="right") - 1
        good = (at >= 0) & (moments < ends[np.maximum(at, 0)])
        return np.where(good, who[np.maximum(at, 0)], NONE)


def _rows(host_op: pl.DataFrame, gc: pl.DataFrame) -> pl.DataFrame:
    columns = [
        "kind", "name", "pid", "tid", "start_ns", "dur_ns", "correlation", "sequence", "forward_tid", "stack_id",
    ]  # fmt: skip
    rows = host_op.filter(pl.col("kind").is_in(_KINDS) & (pl.col("dur_ns") > 0)).select(columns)
    steps = rows.filter(pl.col("kind") == "step").select("pid", "tid").unique()
    if not gc.height or steps.height != 1:
        return rows
    own = gc.filter(pl.col("dur_ns") > 0).select("start_ns", "dur_ns").join(steps, how="cross")
    more = own.with_columns(
        pl.lit("python").alias("kind"), pl.lit("garbage collection").alias("name"),
        *(pl.lit(None, dtype=pl.Int64).alias(name) for name in columns[6:]),
    )  # fmt: skip
    return pl.concat([rows, more.select(columns)])


def _own_lines(stack: pl.DataFrame) -> Iterator[tuple[int, str]]:
    """By stack the innermost frame of the user's code; empty without."""
    for number, frames in stack.select("stack_id", "frames").iter_rows():
        yield number, next((frame for frame in (frames or "").split("\n") if is_own(frame)), "")


def _codes(values: pl.Series) -> tuple[list[str], Ints]:
    values = values.fill_null("")
    known = values.unique(maintain_order=True)
    return known.to_list(), values.cast(pl.Enum(known)).to_physical().cast(pl.Int64).to_numpy()


def _nested(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Ends, parents and depths of calls in order, so that each lies within its parent.

    Of two calls that overlap with neither in the other, the first is cut where the second has more behind its end
    than before it (frames of a profiler that is just starting), else the second is.
    """
    end = end.copy()
    for _ in range(_ROUNDS):
        parent, depth = _parents(start, end)
        over = np.flatnonzero((parent != NONE) & (end > end[parent]))
        if not len(over):
            return end, parent, depth
        for call in over.tolist():
            _cut_around(call, start, end, parent)
    parent, depth = _parents(start, end)
    for level in range(1, int(depth.max(initial=0)) + 1):
        mine = np.flatnonzero(depth == level)
        end[mine] = np.maximum(start[mine], np.minimum(end[mine], end[parent[mine]]))
    return end, *_parents(start, end)


def _cut_around(call: int, start: Ints, end: Ints, parent: Ints) -> None:
    """Cut all calls around one, from the innermost, that end before it and have less of it inside than behind them."""
    begin, stop, around = int(start[call]), int(end[call]), int(parent[call])
    while around != NONE and begin < end[around] < stop and stop - end[around] > end[around] - begin:
        end[around] = begin
        around = int(parent[around])


def _parents(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """For calls by start, longer ones first: the one that holds each (-1: none), and how many do.

    A call is at the depth of how many began before it and have not ended; the last one of the depth above holds it.
    Calls of which nothing is left stand alone.
    """
    parent, depth = np.full(len(start), NONE, dtype=np.int64), np.zeros(len(start), dtype=np.int64)
    live = np.flatnonzero(end > start)
    deep = np.arange(len(live), dtype=np.int64) - np.searchsorted(np.sort(end[live]), start[live], side="right")
    depth[live] = deep
    order = np.argsort(deep, kind="stable")
    edges = np.searchsorted(deep[order], np.arange(int(deep.max(initial=-1)) + 2))
    for level in range(1, len(edges) - 1):
        mine, above = order[edges[level] : edges[level + 1]], order[edges[level - 1] : edges[level]]
        parent[live[mine]] = live[above[np.searchsorted(above, mine) - 1]]
    return parent, depth


def _innermost(start: Ints, end: Ints, parent: Ints, depth: Ints) -> tuple[Ints, Ints, Ints]:
    """Stretches in which one call is innermost: at its begin a call is, at its end its parent is again."""
    places = np.flatnonzero(end > start)
    start, end, depth = start[places], end[places], depth[places]
    when = np.concatenate([end, start])
    who = np.concatenate([parent[places], places])
    # At one moment ends come before starts, deeper ends and shallower starts first: what stands last holds.
    rank = np.concatenate([-depth, depth + 1])
    order = np.lexsort((rank, when))
    when, who = when[order], who[order]
    last = np.append(when[1:] != when[:-1], [True]) if len(when) else np.zeros(0, dtype=bool)
    when, who = when[last], who[last]
    open_ = who[:-1] != NONE
    return when[:-1][open_], when[1:][open_], who[:-1][open_]
