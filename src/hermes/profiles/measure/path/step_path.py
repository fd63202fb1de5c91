"""Measures the critical path of a step: its components, the reasons for host time on it, and its longest pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from hermes.base.intervals import EMPTY, Intervals, Ints, union_of_intervals, window
from hermes.knowledge.host_work import GC, OUTSIDE
from hermes.model.path_measures import PathPart, PathStretch, StepPath
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.communication.last_arrivals import Arrivals
from hermes.profiles.measure.host.select_host_calls import CALLS, intervals_by_reason, spans
from hermes.profiles.measure.path.build_event_graph import events
from hermes.profiles.measure.path.graph import Graph, build
from hermes.profiles.measure.path.near_critical import rivals
from hermes.profiles.measure.path.path import Piece, RankScene, walk, walk_across
from hermes.profiles.measure.path.previous_tasks import NONE

_COMPONENT = {
    "compute": "compute", "comm": "communication", "copy": "copy", "wait": "wait", "host": "host",
    "launch": "launch", "queue": "launch", "gap": "device gap", "unexplained": "unexplained",
}  # fmt: skip
# Times in ns before and after a step whose rows belong to its graph: work queued before the step, and work after it.
BEFORE_NS = 20_000_000
AFTER_NS = 50_000_000
STRETCHES = 60


@dataclass(frozen=True, slots=True)
class Calls:
    """The names, starts, ends and self times of calls, for repeated look-ups."""

    name: pl.Series
    start: Ints
    end: Ints
    own: Ints

    @staticmethod
    def of(rows: pl.DataFrame) -> Calls:
        """The calls in rows with `name`, `start_ns`, `dur_ns` and `self_ns`."""
        start, dur, own = (rows[name].to_numpy() for name in ("start_ns", "dur_ns", "self_ns"))
        return Calls(rows["name"], start, start + dur, own)

    def most(self, piece: Piece) -> tuple[str, int]:
        """The call with most self time in a piece, and that time in ns; an empty name if there is none."""
        inside = np.flatnonzero((self.start < piece.end_ns) & (self.end > piece.start_ns))
        if not len(inside):
            return "", 0
        shared = np.minimum(self.end[inside], piece.end_ns) - np.maximum(self.start[inside], piece.start_ns)
        taken = np.minimum(self.own[inside], shared)
        # Of equal calls, the first to start.
        first = np.lexsort((self.start[inside], -taken))[0]
        return str(self.name[int(inside[first])]), int(taken[first])


@dataclass(frozen=True, kw_only=True)
class RankRows:
    """Rows of one rank in a stretch of time.

    `kernel` needs `kernel_id, name, component, stream, start_ns, dur_ns, correlation, launch_ns, step`; `comm_op` needs
    the same with `comm_id, group, library` in place of the first and third. `host_op` needs `kind, name, pid, tid,
    start_ns, dur_ns`, `self_ns` and `correlation`; `flow` whole rows of kind `queue`, `launch` and `event`.
    """

    rank: int
    vendor: str
    kernel: pl.DataFrame
    comm_op: pl.DataFrame
    host_op: pl.DataFrame
    flow: pl.DataFrame
    gc: pl.DataFrame

    @cached_property
    def graph(self) -> Graph:
        """The dependency graph: what each task and each call waited for."""
        return build(self.vendor, self.kernel, self.comm_op, self.host_op, self.flow)

    @cached_property
    def reasons_of_threads(self) -> dict[tuple[int | None, int | None], dict[str, Intervals]]:
        """The results of `host_reasons`, by process and thread."""
        return {}

    @cached_property
    def collections(self) -> Calls:
        """The garbage collections of the rank."""
        own = pl.col("dur_ns").alias("self_ns")
        return Calls.of(self.gc.select(pl.lit(GC).alias("name"), "start_ns", "dur_ns", own))

    @cached_property
    def _calls(self) -> dict[tuple[int | None, int | None, bool], Calls]:
        return {}

    def calls_of(self, pid: int | None, tid: int | None, *, below: bool) -> Calls:
        """The calls of a thread: runtime calls if `below`, else calls of the framework."""
        known = self._calls
        if (pid, tid, below) not in known:
            of_thread = pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid)
            layer = pl.col("kind").is_in(CALLS) if below else ~pl.col("kind").is_in(CALLS)
            known[(pid, tid, below)] = Calls.of(self.host_op.filter(of_thread & layer))
        return known[(pid, tid, below)]

    @cached_property
    def kernel_names(self) -> dict[int, str]:
        """The name of each device task by `kernel_id`."""
        return dict(self.kernel.select("kernel_id", "name").iter_rows())

    @cached_property
    def comm_names(self) -> dict[int, str]:
        """The name of each operation by `comm_id`."""
        return dict(self.comm_op.select("comm_id", "name").iter_rows())


def step_path(
    load: Callable[[int, int, int], RankRows],
    split: StepSplit,
    arrivals: Arrivals,
    offsets: Mapping[int, int],
    *,
    across: bool,
    most: int = STRETCHES,
) -> StepPath:
    """The critical path through the window of one step of one rank; `across` follows it into awaited ranks.

    The path holds its `most` longest stretches.

    `load` returns the rows of a rank between two moments of its clock. `offsets` are added to a rank's times to bring
    them to one clock.
    """
    start_ns, end_ns = split.start_ns, split.start_ns + split.window_ns
    shift = offsets.get(split.rank, 0)
    rows: dict[int, RankRows] = {}
    scenes: dict[int, RankScene] = {}

    def scene(rank: int) -> RankScene:
        if rank not in scenes:
            away = shift - offsets.get(rank, 0)
            rows[rank] = load(rank, start_ns + away - BEFORE_NS, end_ns + away + AFTER_NS)
            scenes[rank] = RankScene(
                rank=rank, graph=rows[rank].graph, arrivals=arrivals.get(rank, {}), offset_ns=offsets.get(rank, 0)
            )
        return scenes[rank]

    first = scene(split.rank)
    first_net = events(first.graph, first.arrivals, start_ns, end_ns)
    pieces = walk_across(scene, split.rank, start_ns, end_ns) if across else walk(first, start_ns, end_ns)
    return StepPath(
        rank=split.rank,
        step=split.step,
        across=across,
        start_ns=start_ns,
        window_ns=end_ns - start_ns,
        parts=_parts(pieces, rows, scenes),
        stretches=tuple(_stretches(pieces, rows, scenes, most)),
        near_critical=rivals(first_net, first.graph, [piece for piece in pieces if piece.rank == split.rank], start_ns),
    )


def _parts(
    pieces: Sequence[Piece], rows: Mapping[int, RankRows], scenes: Mapping[int, RankScene]
) -> tuple[PathPart, ...]:
    """The time in ns of each component on the path, the host by reason; largest first."""
    sums: dict[tuple[int, str, str], int] = {}
    for piece in pieces:
        if piece.kind != "host":
            reason = "" if piece.peer is None else f"rank {piece.peer}"
            key = (piece.rank, _COMPONENT[piece.kind], reason)
            sums[key] = sums.get(key, 0) + piece.end_ns - piece.start_ns
    for rank, thread in sorted({(piece.rank, piece.thread) for piece in pieces if piece.kind == "host"}):
        own = [piece for piece in pieces if piece.kind == "host" and (piece.rank, piece.thread) == (rank, thread)]
        on_path = _union(own)
        pid, tid = scenes[rank].graph.threads[thread]
        left = on_path.total
        for reason, when in host_reasons(rows[rank], pid, tid).items():
            ns = (on_path & when).total
            sums[(rank, "host", reason)] = sums.get((rank, "host", reason), 0) + ns
            left -= ns
        sums[(rank, "host", OUTSIDE)] = sums.get((rank, "host", OUTSIDE), 0) + left
    parts = [PathPart(rank=rank, component=what, reason=why, ns=ns) for (rank, what, why), ns in sums.items() if ns]
    return tuple(sorted(parts, key=lambda part: (-part.ns, part.rank, part.component, part.reason)))


def _union(pieces: Sequence[Piece]) -> Intervals:
    frame = pl.DataFrame(
        [(piece.start_ns, piece.end_ns) for piece in pieces], schema={"start": pl.Int64, "end": pl.Int64}, orient="row"
    )
    return union_of_intervals(frame["start"].to_numpy(), frame["end"].to_numpy())


def host_reasons(rows: RankRows, pid: int | None, tid: int | None) -> Mapping[str, Intervals]:
    """The times of a host thread by reason, except `OUTSIDE`; of several reasons at one moment the first counts."""
    known = rows.reasons_of_threads
    if (pid, tid) not in known:
        known[(pid, tid)] = dict(_reasons(rows, pid, tid))
    return known[(pid, tid)]


def _reasons(rows: RankRows, pid: int | None, tid: int | None) -> Iterator[tuple[str, Intervals]]:
    calls = rows.host_op.filter(pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid))
    every = [spans(calls), spans(rows.gc)]
    edges = [edge for when in every if when.span for edge in when.span]
    when = window(min(edges), max(edges)) if edges else EMPTY
    for reason, found in intervals_by_reason(when, calls, rows.gc):
        if reason != OUTSIDE:
            yield reason, found


def _stretches(
    pieces: Sequence[Piece], rows: Mapping[int, RankRows], scenes: Mapping[int, RankScene], most: int
) -> Iterator[PathStretch]:
    """The longest pieces in the order of the path, with the names of their tasks or calls."""
    longest = sorted(pieces, key=lambda piece: piece.start_ns - piece.end_ns)[:most]
    chosen = {id(piece) for piece in longest}
    for piece in pieces:
        if id(piece) in chosen:
            name, where = _named(piece, rows[piece.rank], scenes[piece.rank].graph)
            yield PathStretch(
                rank=piece.rank,
                component=_COMPONENT[piece.kind],
                name=f"waits for rank {piece.peer} in {name}" if piece.peer is not None else name,
                where=where,
                start_ns=piece.start_ns,
                dur_ns=piece.end_ns - piece.start_ns,
            )


def _named(piece: Piece, rows: RankRows, graph: Graph) -> tuple[str, str]:
    """The name of a piece, and the stream, group or thread where it lies."""
    if piece.task != NONE:
        comm = int(graph.tasks.comm[piece.task])
        names, number = (rows.comm_names, comm) if comm != NONE else (rows.kernel_names, graph.tasks.kernel[piece.task])
        return names[int(number)], graph.tasks.line[piece.task]
    if piece.thread == NONE:
        return "", ""
    _, tid = thread = graph.threads[piece.thread]
    half = (piece.end_ns - piece.start_ns) // 2
    # The call that takes at least half of the piece: garbage collection before the runtime, the runtime before the
    # framework.
    if rows.collections.most(piece)[1] > half:
        return GC, f"thread {tid}"
    name, ns = rows.calls_of(*thread, below=True).most(piece)
    name = name if ns > half else rows.calls_of(*thread, below=False).most(piece)[0]
    return name or _reason(piece, rows, thread), f"thread {tid}"


def _reason(piece: Piece, rows: RankRows, thread: tuple[int | None, int | None]) -> str:
    """The reason of most host time in a piece whose time many calls share, so that no single call names it."""
    own = window(piece.start_ns, piece.end_ns)
    parts = {reason: (own & when).total for reason, when in host_reasons(rows, *thread).items()}
    return max(parts, key=lambda reason: parts[reason]) if any(parts.values()) else OUTSIDE
