"""The call trees of all threads of a rank on one axis; tells the innermost call at each moment.

Threads stand one behind the other on the axis (`ThreadAxis`), so one search serves all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from hermes.knowledge.blocking_calls import is_copy, reads_back
from hermes.knowledge.leaf_names import (
    calls_collective,
    launches,
    leaf_in_update,
    leaf_of_call,
    leaf_of_event,
    marks_collective,
    synchronises,
    updates,
    waits,
)
from hermes.knowledge.user_code import frame_of, is_comprehension, is_own, own_line, stands_before
from hermes.model.leaf import HOST_WAITS, Leaf
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.encode_texts import coded, pairs_of
from hermes.profiles.measure.leaves.nesting import (
    NONE,
    Bools,
    Ints,
    begun_with,
    calls_by_start,
    innermost,
    nest_sorted_calls,
    of_outermost,
)
from hermes.profiles.measure.steps.capture_extent import is_call

LEAVES = tuple(Leaf)
"""All leaves; arrays hold the index of a leaf in this tuple."""
NUMBER = {leaf: place for place, leaf in enumerate(LEAVES)}
IN_UPDATE = np.array([NUMBER[leaf_in_update(leaf)] for leaf in LEAVES], dtype=np.int8)
"""For each leaf of compute, the number of the same class of compute inside an optimizer's step."""
_NUMBERS = ("start_ns", "dur_ns", "correlation", "sequence", "forward_tid", "stack_id")
_COLUMNS = ("kind", "name", "pid", "tid", *_NUMBERS)
RANGES = ("mark", "step")

NO_ARROWS = pl.DataFrame(schema={"src_pid": pl.Int64, "src_tid": pl.Int64, "src_ns": pl.Int64})


@dataclass(frozen=True, slots=True)
class ThreadAxis:
    """Maps each thread to its own stretch of one integer axis, in nanoseconds."""

    first_ns: int
    stride: int
    threads: tuple[tuple[int | None, int | None], ...]

    def at(self, thread: Ints, when: Ints) -> Ints:
        """Moments of threads as places on the axis, clipped to the thread's stretch."""
        inside: Ints = np.clip(when - self.first_ns, 0, self.stride - 1)
        return np.asarray(thread.astype(np.int64) * self.stride + inside)


class CallTrees:
    """The calls of a rank in the order of the axis, each after the call that contains it; marks of steps contain none.

    `start`, `end` are on the axis, `parent` is an index or -1, `depth` is 0 for outermost calls. `name` and `kind` are
    indices into `names` and `kinds`; `recorded` gives other recorded columns. `launched` has `correlation` and `name`
    of the device tasks; `arrows` lead to device tasks.
    """

    def __init__(
        self, host_op: pl.DataFrame, gc: pl.DataFrame, stack: pl.DataFrame, first_ns: int, last_ns: int,
        launched: pl.DataFrame, arrows: pl.DataFrame = NO_ARROWS,
    ) -> None:  # fmt: skip
        host_op = _with_collections(host_op, gc)
        self.launched = launched.unique("correlation", keep="first", maintain_order=True)
        self._arrows = arrows
        self._of_kind: dict[tuple[str, ...], Bools] = {}
        some = np.flatnonzero(host_op.select(is_call()).to_series())
        threads, thread = pairs_of(host_op["pid"], host_op["tid"])
        self.axis = ThreadAxis(first_ns, last_ns - first_ns + 2, threads)
        self.kinds, kind = coded(host_op["kind"])
        self.thread, self.kind = thread, kind
        began = host_op["start_ns"].to_numpy()[some]
        start = self.axis.at(thread[some], began)
        end = self.axis.at(thread[some], began + host_op["dur_ns"].to_numpy()[some])
        # A loop that steps inside a function opens a mark in one call of the function, and closes it in the next.
        end = np.where(self.of_kind("step", which=some), np.minimum(end, start + 1), end)
        start = begun_with(start, end, self.of_kind(*RUNTIME_KINDS, which=some))
        order = calls_by_start(start, end)
        self.start = start[order]
        self.end, self.parent, self.depth = nest_sorted_calls(self.start, end[order])
        some = some[order]
        self.thread, self.kind = thread[some], kind[some]
        self.names, name = coded(host_op["name"])
        self.name = name[some]
        self._host_op, self._row = host_op, some.astype(np.int32)
        own = {number: line for number, line in _own_lines(stack) if line}
        self._stacks = {number: len(self.names) + place for place, number in enumerate(own)}
        self.lines = [*self.names, *own.values()]

    def __len__(self) -> int:
        return len(self.start)

    def recorded(self, *names: str, which: Ints | Bools | None = None) -> pl.DataFrame:
        """Columns of the table `host_op`, for all calls or some; not cached, since a capture has millions of calls."""
        return self._host_op.select(names)[self._row if which is None else self._row[which]]

    def of_kind(self, *kinds: str, which: Ints | None = None) -> Bools:
        """A mask of the calls, all or some, that have one of these kinds."""
        asked = np.array([one in kinds for one in self.kinds], dtype=bool)
        if which is not None:
            return asked[self.kind[which]]
        if kinds not in self._of_kind:
            self._of_kind[kinds] = asked[self.kind]
        return self._of_kind[kinds]

    def by_name(self, test: Callable[[str], bool]) -> Bools:
        """A mask of the calls whose name passes the test."""
        return np.array([test(name) for name in self.names], dtype=bool)[self.name]

    @cached_property
    def levels(self) -> list[Ints]:
        """The places of the calls of each depth, outermost first."""
        order = np.argsort(self.depth, kind="stable")
        edges = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=-1)) + 2))
        return [order[low:high] for low, high in itertools.pairwise(edges)]

    def outermost(self, own: Ints) -> Ints:
        """For each call the value of its outermost enclosing call (or itself) that is not -1; else -1."""
        return of_outermost(own, self.start, self.end)

    def inherited(self, own: Ints) -> Ints:
        """For each call its own value, else that of the innermost enclosing call that is not -1; else -1."""
        found = own.copy()
        for level in self.levels[1:]:
            mine = own[level]
            found[level] = np.where(mine != NONE, mine, found[self.parent[level]])
        return found

    @cached_property
    def places(self) -> Ints:
        """The index of each call: 0 to n - 1."""
        return np.arange(len(self), dtype=np.int32)

    @cached_property
    def self_ns(self) -> Ints:
        """Self time of each call: its duration less that of its children, in nanoseconds."""
        held = self.parent != NONE
        inner = np.bincount(self.parent[held], weights=(self.end - self.start)[held], minlength=len(self))
        return np.asarray(self.end - self.start - inner.astype(np.int64), dtype=np.int64)

    @cached_property
    def updating(self) -> Bools:
        """A mask of the calls inside the step of an optimizer."""
        inside: Bools = self.outermost(np.where(self.by_name(updates), self.places, NONE)) != NONE
        return inside

    @cached_property
    def reading(self) -> Ints:
        """For each call its outermost enclosing operator (or itself) that reads a number back to the host; else -1."""
        return self.outermost(np.where(self.by_name(reads_back), self.places, NONE))

    @cached_property
    def special(self) -> Ints:
        """For each call its outermost enclosing call (or itself) whose name decides the leaf of all inside; else -1."""
        return self.outermost(np.where(self.telling, self.places, NONE))

    @cached_property
    def special_leaf(self) -> Ints:
        """For each call the number of the leaf that its name decides for all inside it; else that of other compute."""
        told = [leaf_of_event(name) or Leaf.OTHER_COMPUTE for name in self.names]
        by_name = np.array([NUMBER[leaf] for leaf in told], dtype=np.int8)[self.name]
        by_name[self._collective] = NUMBER[Leaf.COMMUNICATION]
        # Only the calls inside a loader tell whether the batch comes from a worker.
        outer = self.special[by_name == NUMBER[Leaf.INPUT_WORKERS]]
        outer = outer[outer != NONE]
        by_name[outer[by_name[outer] == NUMBER[Leaf.INPUT_HERE]]] = NUMBER[Leaf.INPUT_WORKERS]
        return by_name

    @cached_property
    def telling(self) -> Bools:
        """A mask of the calls whose name decides the leaf of all inside: also ranges of libraries, never steps."""
        return (self.by_name(lambda name: leaf_of_event(name) is not None) & ~self.of_kind("step")) | self._collective

    @cached_property
    def opened(self) -> frozenset[str]:
        """The names of the Python frames that were open when the first marked step began."""
        first = self.start[self.of_kind("step")].min(initial=np.iinfo(np.int64).max)
        around = self.of_kind("python") & (self.start <= first) & (self.end > first)
        return frozenset(self.names[name] for name in np.unique(self.name[around]).tolist())

    @cached_property
    def in_own_python(self) -> Bools:
        """A mask of the Python frames of the user's code, and of the builtins that it calls directly."""
        python = self.of_kind("python")
        told = [NONE if name.startswith("<built-in") else int(is_own(name)) for name in self.names]
        own = np.array(told, dtype=np.int8)[self.name]
        # An operator in between, such as one with hooks, belongs to none.
        own[~python] = 0
        return np.asarray(python & (self.inherited(own) == 1), dtype=bool)

    @cached_property
    def standing_before(self) -> Bools:
        """A mask of the frames of Hermes that call functions of the job."""
        return self.by_name(stands_before)

    @cached_property
    def _collective(self) -> Bools:
        """A mask of the frames that are collectives on the CPU, in jobs without a device."""
        return self.of_kind("python") & self.by_name(calls_collective) & np.bool_(not self.launched.height)

    @cached_property
    def launching(self) -> Bools:
        """A mask of the calls that launch device work, directly or in a call inside."""
        called = self.of_kind(*RUNTIME_KINDS) & self.by_name(launches)
        asked = np.flatnonzero(self.of_kind(*RUNTIME_KINDS) & ~called)
        tasks = self.recorded("correlation", which=asked)["correlation"]
        called[asked[tasks.is_in(self.launched["correlation"].implode()).fill_null(value=False).to_numpy()]] = True
        moments = self.start[called | self.of_kind("enqueue", "dequeue")]
        if not self.of_kind(*RUNTIME_KINDS).any():
            moments = np.sort(np.concatenate([moments, self._arrow_moments()]))
        inside = np.searchsorted(moments, self.end) - np.searchsorted(moments, self.start)
        return np.asarray(inside > 0, dtype=bool)

    def _arrow_moments(self) -> Ints:
        """Starts of the arrows to device tasks, on the axis: they mark launches without a recorded runtime call."""
        threads = pl.DataFrame(self.axis.threads, schema={"src_pid": pl.Int64, "src_tid": pl.Int64}, orient="row")
        rows = self._arrows.join(threads.with_row_index("thread"), on=["src_pid", "src_tid"], how="inner")
        return self.axis.at(rows["thread"].cast(pl.Int64).to_numpy(), rows["src_ns"].to_numpy())

    @cached_property
    def block(self) -> Ints:
        """For each call its outermost enclosing operator (or itself) that launches no device work; else -1."""
        own = np.where(self.of_kind("op") & ~self.launching, self.places, NONE)
        found = own.copy()
        passes = self.of_kind("op", "python") & ~self.launching
        for level in self.levels[1:]:
            above = self.parent[level]
            found[level] = np.where(passes[level] & passes[above] & (found[above] != NONE), found[above], own[level])
        return found

    @cached_property
    def operator(self) -> Ints:
        """For each call its outermost enclosing operator (or itself); else -1."""
        return self.outermost(np.where(self.of_kind("op"), self.places, NONE))

    @cached_property
    def range(self) -> Ints:
        """For each call its innermost enclosing range of the user's code (or itself); else -1.

        Step marks do not count, nor do the ranges that a library puts around a collective. Backward operators get the
        range of their forward operator, as for `line`.
        """
        own = self.of_kind("mark") & ~self.by_name(marks_collective)
        return self._with_forward(np.where(own, self.places, NONE))

    def _with_forward(self, own: Ints) -> Ints:
        """For each call its own value, else that of the innermost enclosing call that is not -1.

        A backward operator takes the value of its forward operator, not that of the calls around the backward pass.
        """
        if not (own != NONE).any():
            return own
        found = self.inherited(own)
        of_forward = np.where(self.forward != NONE, found[np.maximum(self.forward, 0)], NONE)
        return self.inherited(np.where(own == NONE, of_forward, own))

    @cached_property
    def line(self) -> Ints:
        """For each call its innermost enclosing line of the user's code, as an index of `lines`; else -1.

        The line is known from Python frames, or from the stack that the profiler kept with an operator. What autograd
        does for an operator belongs to the line of that operator.
        """
        own = np.where(self.of_kind("python") & self.by_name(is_own), self.name, NONE)
        own = self._without_comprehensions(own)
        if self._stacks:
            stacks = self.recorded("stack_id")["stack_id"]
            told = stacks.replace_strict(self._stacks, default=NONE, return_dtype=pl.Int32).fill_null(NONE).to_numpy()
            own = np.where(own == NONE, told, own)
        return self._with_forward(own)

    def _without_comprehensions(self, own: Ints) -> Ints:
        """The lines without comprehensions of the function around them: they are lines of that function."""
        frames = [frame_of(name) for name in self.names]
        inner = np.array([frame is not None and is_comprehension(frame) for frame in frames], dtype=bool)
        if not inner[own[own != NONE]].any():
            return own
        file = np.array([hash(frame.file) if frame else 0 for frame in frames], dtype=np.int64)
        named = self.inherited(np.where((own != NONE) & ~inner[own], own, NONE))
        return np.where((own != NONE) & inner[own] & (named != NONE) & (file[named] == file[own]), NONE, own)

    @cached_property
    def forward(self) -> Ints:
        """For each backward operator the index of its forward operator; -1 for other calls.

        Autograd numbers operators thread by thread. If two threads use one number, the forward operator stays unknown.
        """
        rows = self.recorded("sequence", "forward_tid").with_columns(
            pl.Series("at", self.places), pl.Series("thread", self.thread)
        ).filter(pl.col("sequence").is_not_null())  # fmt: skip
        ahead = rows.filter(pl.col("forward_tid").is_null()).group_by("sequence").agg(
            pl.col("at").min().alias("forward"), pl.col("thread").n_unique().alias("threads")
        )  # fmt: skip
        back = rows.filter(pl.col("forward_tid").is_not_null())
        pairs = back.join(ahead.filter(pl.col("threads") == 1), on="sequence", how="inner")
        own = np.full(len(self), NONE, dtype=np.int32)
        own[pairs["at"].to_numpy()] = pairs["forward"].to_numpy()
        return own

    @cached_property
    def copying(self) -> Bools:
        """A mask of the calls that copy, by their names."""
        return self.by_name(is_copy)

    @cached_property
    def weak(self) -> Bools:
        """A mask of the calls that do not count as calls: ranges of unknown purpose, and frames that wait for a thread.

        A waiting frame still counts inside a call whose name decides the leaf of all inside.
        """
        none: Bools = self.of_kind("python") & self.by_name(waits) & (self.special == NONE)
        return none | (self.of_kind(*RANGES) & ~self.telling)

    @cached_property
    def runtime_leaf(self) -> Ints:
        """For each runtime call that does more than launch, the number of its leaf; else -1.

        A frame that waits for the device counts as such a call, if no runtime call was recorded in it.
        """
        runtime = self.of_kind(*RUNTIME_KINDS)
        told = [leaf_of_call(name) for name in self.names]
        by_name = np.array([NONE if leaf is None else NUMBER[leaf] for leaf in told], dtype=np.int8)[self.name]
        by_name[~runtime] = NONE
        frames = np.flatnonzero(self.of_kind("python") & self.by_name(synchronises))
        called = self.start[runtime]
        alone = np.searchsorted(called, self.end[frames]) == np.searchsorted(called, self.start[frames])
        by_name[frames[alone]] = NUMBER[Leaf.SYNCHRONISATION]
        return by_name

    @cached_property
    def waiting(self) -> Bools:
        """A mask of the runtime calls that wait for the device, and of frames as for `runtime_leaf`."""
        waits = [one in HOST_WAITS for one in LEAVES]
        return np.array([*waits, False], dtype=bool)[self.runtime_leaf]

    @cached_property
    def timeline(self) -> tuple[Ints, Ints, Ints]:
        """Starts and ends of stretches on the axis, and the innermost call in each."""
        return innermost(self.start, self.end, self.parent, self.depth)

    def innermost(self, moments: Ints) -> Ints:
        """The innermost call at each moment of the axis; -1 if no call is open."""
        starts, ends, who = self.timeline
        if not len(starts):
            return np.full(len(moments), NONE, dtype=np.int64)
        at = np.searchsorted(starts, moments, side="right") - 1
        good = (at >= 0) & (moments < ends[np.maximum(at, 0)])
        return np.where(good, who[np.maximum(at, 0)], NONE)


def _with_collections(host_op: pl.DataFrame, gc: pl.DataFrame) -> pl.DataFrame:
    """The calls of the host; each garbage collection becomes a frame of the stepping thread."""
    host_op = host_op.select(_COLUMNS)
    steps = host_op.filter(pl.col("kind") == "step").select("pid", "tid").unique()
    if not gc.height or steps.height != 1:
        return host_op
    own = gc.filter(pl.col("dur_ns") > 0).select("start_ns", "dur_ns").join(steps, how="cross")
    more = own.with_columns(
        pl.lit("python").alias("kind"), pl.lit("garbage collection").alias("name"),
        *(pl.lit(None, dtype=pl.Int64).alias(name) for name in _NUMBERS[2:]),
    )  # fmt: skip
    return pl.concat([host_op, more.select(_COLUMNS)])


def _own_lines(stack: pl.DataFrame) -> Iterator[tuple[int, str]]:
    """Stack numbers, each with its innermost frame of the user's code; empty if it has none."""
    for number, frames in stack.select("stack_id", "frames").iter_rows():
        yield number, own_line((frames or "").split("\n"))
