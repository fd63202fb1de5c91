"""Builds the timeline that `hermes export` writes: all ranks as tracks on one clock, with the findings beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.base.say import say
from hermes.base.units import whole_number
from hermes.model.leaf_time import IdleStretch
from hermes.model.path_measures import PathStretch, StepPath
from hermes.model.report import Report
from hermes.model.step_measures import ClockOffset
from hermes.model.tables import RUNTIME_KINDS
from hermes.model.timeline import ANALYSIS, FINDINGS, Curve, Lane
from hermes.profiles import messages
from hermes.profiles.load import Loaded, RankData
from hermes.profiles.measure.leaves.leaves_of_rank import idle_stretches
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.pipeline.analyze import analyze, outlined

ALL_STRETCHES = 1_000_000
_HOST, _DEVICE, _COMM, _COUNTERS = "host", "device", "communication", "counters"
# Number ranges of arrows: launches have the lower numbers, collectives the upper ones.
_RANKS_APART, _COLLECTIVES = 1 << 40, 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineCut:
    """The part of an input to show; None means all. `window_ns` counts from the first event of all ranks."""

    ranks: frozenset[int] | None = None
    steps: frozenset[int] | None = None
    window_ns: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The tracks of a timeline, in display order.

    `first_ns` is the moment on the common clock from which windows count.
    """

    lanes: tuple[Lane, ...]
    curves: tuple[Curve, ...]
    first_ns: int
    lacks: tuple[Message, ...] = ()
    """Messages about ranks, steps or windows that were asked for and are not in the input."""


def timeline(loaded: Loaded, cut: TimelineCut, report: Report | None = None) -> Timeline:
    """The tracks of the selected ranks, steps and window; raises `InputError` if the selection is empty.

    `report` is the analysis with `ALL_STRETCHES`, if the caller has it already.
    """
    report = report or analyze(loaded, stretches=ALL_STRETCHES)
    offsets = {clock.rank: clock.offset_ns for clock in report.rows(ClockOffset)}
    ranks = [rank for rank in loaded.ranks if cut.ranks is None or rank.rank in cut.ranks]
    if not ranks:
        have = ", ".join(str(rank.rank) for rank in loaded.ranks[:16])
        raise InputError(messages.NONE_OF_RANKS, where="--ranks", hint=messages.do_have_ranks(ranks=have))
    first = first_moment(loaded, report)
    spans = _spans(report, cut, first, offsets, ranks)
    met = _met(loaded) if len(ranks) > 1 else _NONE_MET
    lanes: list[Lane] = []
    curves: list[Curve] = []
    for rank in ranks:
        view = _View(rank, offsets.get(rank.rank, 0), spans.get(rank.rank, (None, None)))
        lanes += [*_found(report, view), *_host(view), *_device(view), *_comm(view, met)]
        curves += _curves(view)
    lanes = [lane for lane in lanes if lane.rows.height]
    if not lanes:
        raise InputError(messages.NOTHING_IN_PART, where="--steps or --window", hint=messages.DO_ASK_FOR_MORE)
    lacks: list[Message] = []
    if gone := set(cut.ranks or ()) - {rank.rank for rank in ranks}:
        lacks.append(messages.ranks_not_there(ranks=gone))
    if gone := set(cut.steps or ()) - {split.step for split in report.steps}:
        lacks.append(messages.steps_not_there(steps=gone))
    return Timeline(
        lacks=tuple(lacks),
        lanes=tuple(_with_meetings(lanes)),
        curves=tuple(c for c in curves if c.rows.height),
        first_ns=first,
    )


_NONE_MET = pl.DataFrame(schema={"rank": pl.Int64, "comm_id": pl.Int64, "meeting": pl.String})


def _met(loaded: Loaded) -> pl.DataFrame:
    """The collectives that no rank leaves before all have arrived: `rank`, `comm_id` and `meeting`, equal on all."""
    rows = outlined(loaded).made.rows.filter((pl.col("manner") == "all") & pl.col("matched"))
    return rows.select("rank", "comm_id", pl.format("{} {}", "group", "key").alias("meeting"))


def first_moment(loaded: Loaded, report: Report) -> int:
    """The first moment of all ranks, in ns on the common clock: windows count from it."""
    offsets = {clock.rank: clock.offset_ns for clock in report.rows(ClockOffset)}
    return min((_first(rank) + offsets.get(rank.rank, 0) for rank in loaded.ranks), default=0)


def _first(rank: RankData) -> int:
    """The first moment of a rank, in ns on its own clock."""
    starts = [rank.table(name, "start_ns")["start_ns"].min() for name in ("step", "kernel", "host_op")]
    return min((int(start) for start in starts if isinstance(start, int)), default=0)


def _spans(
    report: Report, cut: TimelineCut, first_ns: int, offsets: dict[int, int], ranks: Sequence[RankData]
) -> dict[int, tuple[int | None, int | None]]:
    """For each rank the wanted time range, in ns on its own clock.

    A step begins with its window or with its mark: the host may be ahead of the device.
    """
    if cut.steps is not None and not cut.steps & {split.step for split in report.steps}:
        have = sorted({split.step for split in report.steps if split.step is not None})
        told = messages.DO_NO_STEP_MARKED
        if have:
            told = messages.do_steps_from_to(first=str(have[0]), last=str(have[-1]))
        raise InputError(messages.NONE_OF_STEPS, where="--steps", hint=told)
    found: dict[int, tuple[int | None, int | None]] = {}
    marks = {data.rank: dict(data.table("step", "step", "start_ns").iter_rows()) for data in ranks if cut.steps}
    for rank in {split.rank for split in report.steps}:
        begin: int | None = None
        end: int | None = None
        if cut.window_ns is not None:
            begin, end = (first_ns + at - offsets.get(rank, 0) for at in cut.window_ns)
        if cut.steps is not None:
            own = [split for split in report.steps if split.rank == rank and split.step in cut.steps]
            starts = [min(split.start_ns, marks.get(rank, {}).get(split.step, split.start_ns)) for split in own]
            ends = [split.start_ns + split.window_ns for split in own]
            begin = max([min(starts, default=0), *([] if begin is None else [begin])])
            end = min([max(ends, default=0), *([] if end is None else [end])])
        found[rank] = (begin, end)
    return found


class _View:
    """The rows of one rank in a time range, moved to the common clock."""

    def __init__(self, data: RankData, offset_ns: int, span: tuple[int | None, int | None]) -> None:
        self.rank = data.rank
        self.offset_ns = offset_ns
        self.begin, self.end = span
        self.data = data

    def rows(self, table: str, *columns: str) -> pl.DataFrame:
        """Rows of a table that overlap the time range; `start_ns` is on the common clock."""
        wanted = ["start_ns", "dur_ns", *columns]
        if self.begin is None or self.end is None:
            found = self.data.table(table, *wanted)
        else:
            found = self.data.between(table, wanted, self.begin, self.end)
        return found.with_columns(pl.col("start_ns") + self.offset_ns)

    def samples(self, table: str, *columns: str) -> pl.DataFrame:
        """Samples of a table in the time range; `ts_ns` is on the common clock."""
        found = self.data.table(table, "ts_ns", *columns)
        if self.begin is not None and self.end is not None:
            found = found.filter(pl.col("ts_ns").is_between(self.begin, self.end))
        return found.with_columns(pl.col("ts_ns") + self.offset_ns)


def _lanes(view: _View, folder: str, rows: pl.DataFrame, by: str) -> Iterator[Lane]:
    """One track for each value of a column of names, in the order of the names."""
    for (name,), own in sorted(rows.partition_by(by, as_dict=True).items(), key=lambda pair: _natural(str(pair[0][0]))):
        yield Lane(rank=view.rank, folder=folder, name=str(name), rows=own.drop(by))


def _natural(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    number = whole_number(name[len(head) :])
    return head, -1 if number is None else number, name


def _host(view: _View) -> Iterator[Lane]:
    """Tracks of the host: steps, host threads and garbage collections."""
    rows = view.rows("host_op", "name", "kind", "tid", "correlation", "shapes", "dtypes")
    steps = rows.filter(pl.col("kind") == "step").select("start_ns", "dur_ns", "name").unique()
    yield Lane(rank=view.rank, folder=_HOST, name="steps", rows=steps)
    calls = pl.col("correlation").is_not_null() & pl.col("kind").is_in(RUNTIME_KINDS)
    rows = rows.with_columns(
        pl.format("thread {}", pl.col("tid").cast(pl.String).fill_null("unknown")).alias("lane"),
        pl.when(calls).then(pl.col("correlation") + view.rank * _RANKS_APART).alias("leaves"),
        _detail("shapes", "dtypes"),
    )
    # Draw an arrow from one call of each launch: the innermost call ends first.
    ends = (pl.col("start_ns") + pl.col("dur_ns")).rank("ordinal").over("leaves")
    rows = rows.with_columns(pl.when(ends == 1).then("leaves").alias("leaves"))
    wanted = ["start_ns", "dur_ns", "name", "detail", "leaves", "lane"]
    yield from _lanes(view, _HOST, rows.filter(pl.col("kind") != "step").select(wanted), "lane")
    gc = view.rows("gc").with_columns(pl.lit("garbage collection").alias("name"))
    yield Lane(rank=view.rank, folder=_HOST, name="garbage collection", rows=gc)


def _device(view: _View) -> Iterator[Lane]:
    """One track for each device stream, with an arrow from each launch."""
    rows = view.rows("kernel", "name", "stream", "correlation", "input_shapes", "input_dtypes", "type", "component")
    if view.rows("comm_task").height:
        # Parts of a collective run side by side on many planes, and are shown on the tracks of the planes.
        rows = rows.filter(pl.col("component") != "comm")
    rows = rows.with_columns(
        pl.format("stream {}", pl.col("stream").cast(pl.String).fill_null("unknown")).alias("lane"),
        pl.when(pl.col("start_ns").rank("ordinal").over("correlation") == 1)
        .then(pl.col("correlation") + view.rank * _RANKS_APART)
        .alias("arrives"),
        _detail("type", "input_shapes", "input_dtypes"),
    )
    yield from _lanes(view, _DEVICE, rows.select("start_ns", "dur_ns", "name", "detail", "arrives", "lane"), "lane")


def _comm(view: _View, met: pl.DataFrame) -> Iterator[Lane]:
    """Tracks of collectives by group, and below them the transfers and waits of each plane."""
    rows = view.rows("comm_op", "comm_id", "name", "op", "group", "bytes")
    rows = rows.join(
        met.filter(pl.col("rank") == view.rank).drop("rank"), on="comm_id", how="left", maintain_order="left"
    )
    rows = rows.with_columns(
        pl.format("group {}", pl.col("group").fill_null("unknown")).alias("lane"),
        pl.concat_str("op", pl.format("{} bytes", "bytes"), separator=" ", ignore_nulls=True).alias("detail"),
    )
    wanted = ["start_ns", "dur_ns", "name", "detail", "meeting", "lane"]
    yield from _lanes(view, _COMM, rows.select(wanted), "lane")
    tasks = view.rows("comm_task", "task", "group", "plane", "peer_rank", "bytes", "transport")
    tasks = tasks.with_columns(
        pl.format(
            "group {} plane {}", pl.col("group").fill_null("unknown"), pl.col("plane").cast(pl.String).fill_null("?")
        ).alias("lane"),
        pl.concat_str("task", pl.format("rank {}", "peer_rank"), separator=" ", ignore_nulls=True).alias("name"),
        pl.concat_str("transport", pl.format("{} bytes", "bytes"), separator=" ", ignore_nulls=True).alias("detail"),
    )
    yield from _lanes(view, f"{_COMM}/planes", tasks.select("start_ns", "dur_ns", "name", "detail", "lane"), "lane")


def _detail(*columns: str) -> pl.Expr:
    joined = pl.concat_str(*columns, separator=" · ", ignore_nulls=True)
    return pl.when(joined.str.len_bytes() > 0).then(joined).alias("detail")


def _curves(view: _View) -> Iterator[Curve]:
    """Curves of counters, and of the memory of each allocator."""
    rows = view.samples("counter", "source", "name", "series", "value")
    for (source, name, series), own in sorted(rows.partition_by("source", "name", "series", as_dict=True).items()):
        yield Curve(
            rank=view.rank, folder=f"{_COUNTERS}/{source}", name=f"{name} {series}", unit="",
            rows=own.select("ts_ns", "value"),
        )  # fmt: skip
    memory = view.samples("memory", "component", "allocated_bytes", "reserved_bytes")
    for (component,), own in sorted(memory.partition_by("component", as_dict=True).items()):
        for column in ("allocated_bytes", "reserved_bytes"):
            yield Curve(
                rank=view.rank, folder=f"{_COUNTERS}/memory", name=f"{component} {column.removesuffix('_bytes')}",
                unit="B", rows=own.select("ts_ns", pl.col(column).alias("value")),
            )  # fmt: skip


def _found(report: Report, view: _View) -> Iterator[Lane]:
    """Tracks of the analysis: windows of steps, findings, critical paths, leaves of the idle device."""
    windows = [
        (split.start_ns, split.window_ns, "capture" if split.step is None else f"step {split.step}", split.window_kind)
        for split in report.steps
        if split.rank == view.rank
    ]
    yield _listed(view, "window", windows)
    moments = [(one, at) for one in report.findings for at in one.moments if at.rank == view.rank]
    yield _listed(
        view,
        FINDINGS,
        [(at.start_ns, at.dur_ns, f"{one.code} {say(one.message)}", say(one.about.message)) for one, at in moments],
    )
    for path in report.paths:
        if path.across:
            if any(row.rank == view.rank for row in path.stretches):
                yield _listed(view, f"critical path across ranks, of rank {path.rank}", _stretches(view, path))
        elif path.rank == view.rank:
            yield _listed(view, "critical path", _stretches(view, path))
    yield _listed(view, "why the device is idle", map(_idle, idle_stretches(RankTables(view.data), ALL_STRETCHES)))


def _idle(row: IdleStretch) -> tuple[int, int, str, str]:
    leaf = say(row.leaf.message)
    return row.start_ns, row.ns, f"{leaf}: {row.what}" if row.what else leaf, row.place


def _stretches(view: _View, of: StepPath) -> Iterator[tuple[int, int, str, str]]:
    for row in of.stretches:
        if row.rank == view.rank:
            yield row.start_ns, row.dur_ns, _titled(row), row.where


def _titled(row: PathStretch) -> str:
    return f"{row.component}: {row.name}" if row.name else row.component


def _listed(view: _View, name: str, listed: Iterable[tuple[int, int, str, str]]) -> Lane:
    """One track made from a list of slices (start and duration in ns, title, detail)."""
    inside = [
        (start + view.offset_ns, dur, title, detail)
        for start, dur, title, detail in listed
        if view.begin is None or view.end is None or (start < view.end and start + dur > view.begin)
    ]
    schema = {"start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String, "detail": pl.String}
    return Lane(rank=view.rank, folder=ANALYSIS, name=name, rows=pl.DataFrame(inside, schema=schema, orient="row"))


def _with_meetings(lanes: Sequence[Lane]) -> Iterator[Lane]:
    """Arrows of collectives: from the rank that arrived last to all other ranks."""
    met = [
        lane.rows.select("meeting", "start_ns", pl.lit(lane.rank, dtype=pl.Int64).alias("rank"))
        for lane in lanes
        if "meeting" in lane.rows.columns
    ]
    if not met:
        yield from lanes
        return
    by_meeting = pl.concat(met).drop_nulls().sort("start_ns", "rank").group_by("meeting", maintain_order=True)
    meetings = by_meeting.agg(pl.col("rank").n_unique().alias("ranks"), pl.col("rank").last().alias("last"))
    meetings = meetings.filter(pl.col("ranks") > 1).with_columns(
        (pl.int_range(pl.len(), dtype=pl.Int64) + _COLLECTIVES).alias("number")
    )
    for lane in lanes:
        if "meeting" not in lane.rows.columns:
            yield lane
            continue
        rows = lane.rows.join(meetings, on="meeting", how="left", maintain_order="left")
        number, last = pl.col("number"), pl.col("last") == lane.rank
        rows = rows.with_columns(
            pl.when(last).then(number).alias("leaves"), pl.when(~last).then(number).alias("arrives")
        )
        yield Lane(
            rank=lane.rank, folder=lane.folder, name=lane.name,
            rows=rows.select("start_ns", "dur_ns", "name", "detail", "leaves", "arrives"),
        )  # fmt: skip
