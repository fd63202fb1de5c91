"""The report's tables as rows of written cells, each with the exact value it sorts and copies by."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.align.offsets import ClockOffset
from hermes.analyze.measures import (
    LinkSpeed,
    PathPart,
    PathRival,
    PathStretch,
    PeerWait,
    RankTotal,
    StepFree,
    StepPath,
    StepSplit,
    StreamBusy,
    TopRow,
)
from hermes.report.cells import HELD, NAME_LIMIT, Cell, Column, Heading, Table
from hermes.report.cells import decimal as _decimal
from hermes.report.cells import fraction_cell as _fraction
from hermes.report.cells import known as _known
from hermes.report.cells import micro as _micro
from hermes.report.cells import name as _name
from hermes.report.cells import table as _table
from hermes.report.cells import time as _time
from hermes.report.cells import whole as _whole
from hermes.report.cells import words as _words
from hermes.report.format import numbers, size
from hermes.report.model import Input, Report
from hermes.report.shape import ASCEND_FIELDS, AscendPair, ascend_pairs, ascend_values, path_title

__all__ = ["NAME_LIMIT", "Cell", "Column", "Heading", "Table", "ascend_table", "inputs_table", "tables"]


def tables(report: Report) -> tuple[Table, ...]:
    """All tables, in the order of the page; a table without rows is there too."""
    top = report.top
    return (
        _table("steps", "Steps", "Each step of each rank; the parts add up to the window.", _STEPS, report.steps),
        _table(
            "totals",
            "Totals",
            "All device tasks of each capture, without regard to steps.",
            _TOTALS,
            report.totals,
        ),
        _table(
            "path",
            "Critical path",
            "What each path went through; the parts of one path add up to its window.",
            _PATH,
            [(path, part) for path in report.paths for part in path.parts],
        ),
        _table(
            "path-stretches",
            "Longest stretches of the critical path",
            "In the order of the path of the slowest rank; the start is on the clock of the stretch's own rank.",
            _STRETCHES,
            report.paths[0].stretches if report.paths else (),
        ),
        _table(
            "path-rivals",
            "Close to the critical path",
            "Work off the path with little slack: it takes over once the path is that much shorter.",
            _RIVALS,
            [(path, row) for path in report.paths for row in path.rivals if row.ns * 1000 >= path.window_ns],
        ),
        _table(
            "free",
            "Free time",
            "Why the device had nothing to do in a typical step: what the task behind each gap had waited for.",
            _FREE,
            [(row, part) for row in report.free for part in row.parts],
        ),
        _table(
            "rank-waits",
            "Waits for the last rank",
            "How long a rank waited in collectives for the one that arrived last, over the capture.",
            _RANK_WAITS,
            report.rank_waits,
        ),
        _table(
            "waits",
            "Waits by peer",
            "How long a rank waited inside communication, by the rank it waited for.",
            _WAITS,
            sorted(report.waits, key=lambda row: (-row.total_ns, row.rank, row.peer)),
        ),
        _table(
            "links",
            "Links",
            "Speed that transfers achieved, by transport (10^9 bytes a second).",
            _LINKS,
            report.links,
        ),
        _top("kernels", "Kernels", "Type", top.kernels),
        _top("communication", "Communication", "Group", top.communication),
        _top("operators", "Operators", "Kind", top.operators),
        _top("host-calls", "Host calls", "Kind", top.host_calls),
        _table("streams", "Streams", "How long each stream was busy over the capture.", _STREAMS, report.streams),
        _table(
            "clocks",
            "Clocks",
            "What was added to each rank's times to bring all to one clock.",
            _CLOCKS,
            report.clocks,
        ),
    )


def ascend_table(report: Report) -> Table:
    """The steps by Ascend's definition in microseconds, with the differences to the profiler's own file."""
    rows = [line for pair in ascend_pairs(report) for line in _ascend_lines(pair)]
    headings = [Heading(title=title, unit="", words=title == "Source") for title in ("Rank", "Step", "Source")]
    headings += [Heading(title=name, unit="us", words=False) for _, name in ASCEND_FIELDS]
    return Table(
        key="step-trace-time",
        title="step_trace_time",
        about="In microseconds, with the column names of the profiler's own file.",
        headings=tuple(headings),
        rows=tuple(rows[:HELD]),
        more=max(len(rows) - HELD, 0),
    )


def inputs_table(report: Report) -> Table:
    """The captures that were read."""
    return _table("captures", "Captures", "What was read, one capture a row.", _INPUTS, report.inputs)


def _ascend_lines(pair: AscendPair) -> list[tuple[Cell, ...]]:
    lines = []
    for row in (pair.computed, pair.reported):
        if row is not None:
            lines.append(_ascend_line(pair, row.source, ascend_values(row)))
    if pair.differences:
        known = [] if pair.reported is None else ascend_values(pair.reported)
        gaps = dict(pair.differences)
        fields = zip(ASCEND_FIELDS, known, strict=True)
        values = tuple(gaps.get(word, None if ns is None else 0) for (word, _), ns in fields)
        lines.append(_ascend_line(pair, "reported - computed", values))
    return lines


def _ascend_line(pair: AscendPair, source: str, values: Sequence[int | None]) -> tuple[Cell, ...]:
    return (_whole(pair.rank), _whole(pair.step), _words(source), *(_micro(ns) for ns in values))


def _top(key: str, title: str, detail: str, rows: Sequence[TopRow]) -> Table:
    columns: tuple[Column[TopRow], ...] = (
        Column(title="Name", cell=lambda row: _name(row.name), words=True),
        Column(title=detail, cell=lambda row: _name(row.detail), words=True),
        Column(title="Total", cell=lambda row: _time(row.total_ns), unit="ns"),
        Column(title="Share", cell=lambda row: _fraction(row.share)),
        Column(title="Count", cell=lambda row: _whole(row.count)),
        Column(title="Median", cell=lambda row: _time(row.median_ns), unit="ns"),
        Column(title="Least", cell=lambda row: _time(row.min_ns), unit="ns"),
        Column(title="Most", cell=lambda row: _time(row.max_ns), unit="ns"),
        Column(title="Ranks", cell=lambda row: _words(numbers(row.ranks)), words=True),
    )
    return _table(key, title, "Rows of one name added up over all ranks and steps that were read.", columns, rows)


_STEPS: tuple[Column[StepSplit], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Step", cell=lambda row: _whole(row.step)),
    Column(title="Window", cell=lambda row: _time(row.window_ns), unit="ns"),
    Column(title="Compute", cell=lambda row: _time(row.compute_ns, row.window_ns), unit="ns"),
    Column(title="Exposed comm", cell=lambda row: _time(row.exposed_comm_ns, row.window_ns), unit="ns"),
    Column(title="Exposed copy", cell=lambda row: _time(row.copy_exposed_ns, row.window_ns), unit="ns"),
    Column(title="Free", cell=lambda row: _time(row.free_ns, row.window_ns), unit="ns"),
    Column(title="Comm", cell=lambda row: _time(row.comm_ns), unit="ns"),
    Column(title="Hidden comm", cell=lambda row: _time(row.overlapped_comm_ns), unit="ns"),
    Column(title="Copy", cell=lambda row: _time(row.copy_ns), unit="ns"),
    Column(title="Preparing", cell=lambda row: _time(row.preparing_ns), unit="ns"),
    Column(title="Host mark", cell=lambda row: _time(row.host_ns), unit="ns"),
    Column(title="Window is", cell=lambda row: _words(row.window_kind), words=True),
)
_TOTALS: tuple[Column[RankTotal], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Tasks", cell=lambda row: _whole(row.tasks)),
    Column(title="Span", cell=lambda row: _time(row.span_ns), unit="ns"),
    Column(title="Busy", cell=lambda row: _time(row.busy_ns, row.span_ns), unit="ns"),
    Column(title="Idle", cell=lambda row: _time(row.idle_ns, row.span_ns), unit="ns"),
    Column(title="Compute", cell=lambda row: _time(row.compute_ns, row.span_ns), unit="ns"),
    Column(title="Comm", cell=lambda row: _time(row.comm_ns), unit="ns"),
    Column(title="Exposed comm", cell=lambda row: _time(row.exposed_comm_ns), unit="ns"),
    Column(title="Copy", cell=lambda row: _time(row.copy_ns), unit="ns"),
    Column(title="Exposed copy", cell=lambda row: _time(row.copy_exposed_ns), unit="ns"),
    Column(title="Task time", cell=lambda row: _time(row.task_ns), unit="ns"),
)
_PATH: tuple[Column[tuple[StepPath, PathPart]], ...] = (
    Column(title="Path of", cell=lambda row: _words(path_title(row[0])), words=True),
    Column(title="Rank", cell=lambda row: _whole(row[1].rank)),
    Column(title="Component", cell=lambda row: _words(row[1].component), words=True),
    Column(title="Reason", cell=lambda row: _words(row[1].reason), words=True),
    Column(title="Time", cell=lambda row: _time(row[1].ns), unit="ns"),
    Column(title="Share", cell=lambda row: _fraction(row[1].ns / row[0].window_ns)),
)
_STRETCHES: tuple[Column[PathStretch], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Component", cell=lambda row: _words(row.component), words=True),
    Column(title="Name", cell=lambda row: _name(row.name), words=True),
    Column(title="Where", cell=lambda row: _name(row.where), words=True),
    Column(title="Time", cell=lambda row: _time(row.dur_ns), unit="ns"),
    Column(title="Start", cell=lambda row: _whole(row.start_ns), unit="ns"),
)
_RIVALS: tuple[Column[tuple[StepPath, PathRival]], ...] = (
    Column(title="Path of", cell=lambda row: _words(path_title(row[0])), words=True),
    Column(title="Component", cell=lambda row: _words(row[1].component), words=True),
    Column(title="Where", cell=lambda row: _name(row[1].where), words=True),
    Column(title="Pieces", cell=lambda row: _whole(row[1].tasks)),
    Column(title="Time", cell=lambda row: _time(row[1].ns, row[0].window_ns), unit="ns"),
    Column(title="Slack of half of it", cell=lambda row: _time(row[1].slack_ns), unit="ns"),
    Column(title="Least slack", cell=lambda row: _time(row[1].least_ns), unit="ns"),
)
_FREE: tuple[Column[tuple[StepFree, PathPart]], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row[0].rank)),
    Column(title="Step", cell=lambda row: _whole(row[0].step)),
    Column(title="Component", cell=lambda row: _words(row[1].component), words=True),
    Column(title="Reason", cell=lambda row: _words(row[1].reason), words=True),
    Column(title="Time", cell=lambda row: _time(row[1].ns), unit="ns"),
    Column(title="Share", cell=lambda row: _fraction(row[1].ns / row[0].free_ns)),
)
_RANK_WAITS: tuple[Column[PeerWait], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Waited for rank", cell=lambda row: _whole(row.peer)),
    Column(
        title="That rank",
        cell=lambda row: _words("collected" if row.peer_collected else "not collected"),
        words=True,
    ),
    Column(title="Total", cell=lambda row: _time(row.total_ns), unit="ns"),
    Column(title="Longest", cell=lambda row: _time(row.longest_ns), unit="ns"),
    Column(title="Operations", cell=lambda row: _whole(row.waits)),
)
_WAITS: tuple[Column[PeerWait], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Waited for rank", cell=lambda row: _whole(row.peer)),
    Column(
        title="That rank",
        cell=lambda row: _words("collected" if row.peer_collected else "not collected"),
        words=True,
    ),
    Column(title="Total", cell=lambda row: _time(row.total_ns), unit="ns"),
    Column(title="Longest", cell=lambda row: _time(row.longest_ns), unit="ns"),
    Column(title="Waits", cell=lambda row: _whole(row.waits)),
)
_LINKS: tuple[Column[LinkSpeed], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Transport", cell=lambda row: _name(row.transport), words=True),
    Column(title="GB/s", cell=lambda row: _decimal(row.gb_per_s)),
    Column(title="Size", cell=lambda row: Cell(text=size(row.bytes), value=str(row.bytes)), unit="bytes"),
    Column(title="Time", cell=lambda row: _time(row.time_ns), unit="ns"),
)
_STREAMS: tuple[Column[StreamBusy], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Stream", cell=lambda row: _whole(row.stream)),
    Column(title="Component", cell=lambda row: _name(row.component), words=True),
    Column(title="Busy", cell=lambda row: _time(row.busy_ns), unit="ns"),
    Column(title="Tasks", cell=lambda row: _whole(row.tasks)),
)
_INPUTS: tuple[Column[Input], ...] = (
    Column(title="Path", cell=lambda row: _name(row.path), words=True),
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Format", cell=lambda row: _name(row.format), words=True),
    Column(title="Capture", cell=lambda row: _name(row.capture), words=True),
    Column(title="Level", cell=lambda row: _known(row.level), words=True),
    Column(title="Vendor", cell=lambda row: _name(row.vendor), words=True),
    Column(title="Chip", cell=lambda row: _known(row.chip), words=True),
    Column(title="Degraded", cell=lambda row: _name("; ".join(row.degraded) or "no"), words=True),
)
_CLOCKS: tuple[Column[ClockOffset], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Offset", cell=lambda row: _time(row.offset_ns), unit="ns"),
    Column(title="Error", cell=lambda row: _time(row.error_ns), unit="ns"),
    Column(title="Anchors", cell=lambda row: _whole(row.anchors)),
    Column(title="Method", cell=lambda row: _words(row.method), words=True),
)
