"""Builds flame graphs: calls of host threads, merged by their call path, with their total time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.path.previous_tasks import NONE

_MOST_DEPTH = 96
_LEAST_SHARE = 0.0005
_ROUNDING_NS = 1_000
"""The most ns by which a call may end after its caller, since times are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Calls of one name below the same callers, as far as they lie in the window: their number and total time.

    `parent` is the index of the caller among all frames, -1 for a thread, which is a root; a caller stands before its
    callees. `longest_ns` is the start of the longest call; None for threads and for frames of a recorded stack, which
    are known only by the calls they made.
    """

    name: str
    kind: str
    parent: int
    calls: int
    total_ns: int
    longest_ns: int | None


def flame(
    host_op: pl.DataFrame, stacks: Mapping[int, str], window: tuple[int, int], *, most: int = 1_500
) -> tuple[Frame, ...]:
    """Frames of all threads in `[start, end)`, callers first, and callees of one caller longest first.

    `host_op` needs `kind, name, pid, tid, start_ns, dur_ns, depth` and `stack_id`. Runtime calls are left out: their
    depths are counted separately. `stacks` holds the frames of a stack, innermost first, one per line: they stand above
    the outermost calls that have a stack. Frames below a two-thousandth of their thread, and frames beyond `most`, are
    left out. O(n log n).
    """
    start, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    inside = ~pl.col("kind").is_in(RUNTIME_KINDS) & (start < window[1]) & (end > window[0])
    rows = (
        host_op.filter(inside)
        .with_columns(
            (pl.min_horizontal(end, window[1]) - pl.max_horizontal(start, window[0])).alias("own_ns"),
            pl.struct("pid", "tid").rank("dense").cast(pl.Int64).alias("thread"),
            pl.struct("name", "kind").rank("dense").cast(pl.Int64).alias("called"),
        )
        .sort("thread", "start_ns", "depth")
    )
    nodes = _Nodes()
    if rows.height:
        _grow(nodes, rows, stacks)
    return _shown(nodes, most)


@dataclass(slots=True)
class _Nodes:
    """Frames of a flame graph while it is built: a caller stands before its callees."""

    name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    total: list[int] = field(default_factory=list)
    longest: list[int | None] = field(default_factory=list)

    def add(self, name: str, kind: str, parent: int, calls: int = 0, total: int = 0, at: int | None = None) -> int:
        """Add a frame; returns its index."""
        self.name.append(name)
        self.kind.append(kind)
        self.parent.append(parent)
        self.calls.append(calls)
        self.total.append(total)
        self.longest.append(at)
        return len(self.name) - 1


def _grow(nodes: _Nodes, rows: pl.DataFrame, stacks: Mapping[int, str]) -> None:
    depth, called = rows["depth"].to_numpy(), rows["called"].to_numpy()
    own, start = rows["own_ns"].to_numpy(), rows["start_ns"].to_numpy()
    end = start + rows["dur_ns"].to_numpy()
    thread = rows["thread"].to_numpy()
    node, caller = (np.full(rows.height, NONE, dtype=np.int64) for _ in range(2))
    above = np.empty(0, dtype=np.int64)
    for level in range(min(int(depth.max()), _MOST_DEPTH) + 1):
        mine = np.flatnonzero(depth == level)
        if level:
            # The caller is the last row of the level above that began before.
            place = np.searchsorted(above, mine) - 1
            mine, place = mine[place >= 0], above[place[place >= 0]]
            same = thread[place] == thread[mine]
            mine, caller[mine[same]] = mine[same], place[same]
            _outlived(caller, mine, end)
        if not len(mine):
            break
        parent = node[caller[mine]]
        outermost = caller[mine] == NONE
        if outermost.any():
            parent[outermost] = _roots(nodes, rows[mine[outermost]], stacks)
        node[mine] = _merge(nodes, rows, mine, parent, called[mine], own[mine], start[mine])
        above = mine
    # Threads and frames of stacks took as long as their callees.
    for at in range(len(nodes.name) - 1, -1, -1):
        above_it = nodes.parent[at]
        if above_it >= 0 and nodes.longest[above_it] is None:
            nodes.total[above_it] += nodes.total[at]


def _outlived(caller: Ints, mine: Ints, end: Ints) -> None:
    """Move a range that outlives the call in which it was opened to the caller around both."""
    for _ in range(_MOST_DEPTH):
        above = caller[mine]
        short = (above != NONE) & (end[above] + _ROUNDING_NS < end[mine])
        if not short.any():
            return
        caller[mine[short]] = caller[above[short]]


def _roots(nodes: _Nodes, rows: pl.DataFrame, stacks: Mapping[int, str]) -> Ints:
    """For each outermost call its thread, or the innermost frame of its stack below that thread."""
    made: dict[tuple[int, str], int] = {}
    leaf: dict[tuple[object, object, object], int] = {}

    def below(parent: int, name: str, kind: str) -> int:
        if (parent, name) not in made:
            made[parent, name] = nodes.add(name, kind, parent)
        return made[parent, name]

    found = []
    for key in rows.select("pid", "tid", "stack_id").iter_rows():
        if key not in leaf:
            pid, tid, stack = key
            named = "thread not recorded" if tid is None else f"thread {tid}"
            at = below(NONE, named if pid is None else f"process {pid}, {named}", "thread")
            for frame in reversed(stacks.get(stack, "").splitlines()) if stack is not None else ():
                at = below(at, frame, "stack")
            leaf[key] = at
        found.append(leaf[key])
    return np.array(found, dtype=np.int64)


def _merge(nodes: _Nodes, rows: pl.DataFrame, mine: Ints, parent: Ints, called: Ints, own: Ints, start: Ints) -> Ints:
    """Add a node for each name below each caller; returns the node of each row."""
    order = np.lexsort((own, called, parent))
    fresh = np.append(True, (np.diff(parent[order]) != 0) | (np.diff(called[order]) != 0))
    place = np.cumsum(fresh) - 1
    first = np.flatnonzero(fresh)
    longest = order[np.append(first[1:], len(order)) - 1]
    total = np.add.reduceat(own[order], first)
    calls = np.diff(np.append(first, len(order)))
    base = len(nodes.name)
    texts = rows[mine[longest]].select("name", "kind").iter_rows()
    for (name, kind), *values in zip(
        texts, parent[longest].tolist(), calls.tolist(), total.tolist(), start[longest].tolist(), strict=True
    ):
        nodes.add(name, kind, *values)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = base + place
    return found


def _shown(nodes: _Nodes, most: int) -> tuple[Frame, ...]:
    """The frames worth showing, callers first: each thread's longest frames first, level by level."""
    whole: list[int] = []
    total: list[int] = []
    for at, parent in enumerate(nodes.parent):
        # Rounded times can make a call longer than its caller.
        total.append(nodes.total[at] if parent < 0 else min(nodes.total[at], total[parent]))
        whole.append(total[at] if parent < 0 else whole[parent])
    # Among equal frames the caller was made first: it stands before its callees.
    ranked = sorted(range(len(total)), key=lambda at: (-total[at], at))[:most]
    place: dict[int, int] = {}
    found: list[Frame] = []
    for at in (at for at in ranked if total[at] >= _LEAST_SHARE * whole[at]):
        place[at] = len(found)
        found.append(
            Frame(
                name=nodes.name[at], kind=nodes.kind[at], parent=place.get(nodes.parent[at], NONE),
                calls=nodes.calls[at], total_ns=total[at], longest_ns=nodes.longest[at],
            )
        )  # fmt: skip
    return tuple(found)
