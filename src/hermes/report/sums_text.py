"""Draws the profiler's own sums on a terminal, for captures that have no timeline."""

from __future__ import annotations

from collections import Counter

from hermes.base.message import Message
from hermes.model.report import Report
from hermes.model.sum_measures import RecordedSum
from hermes.report import tree_messages as say_that
from hermes.report.format import duration, fraction
from hermes.report.terminal_lines import Screen

_MOST = 8


def draw_sums(screen: Screen, report: Report) -> None:
    """Draw the largest sums of the device, then of the host; a layer's calls contain those of the layers below."""
    rows = report.rows(RecordedSum)
    _side(screen, say_that.SUMS_OF_DEVICE, [row for row in rows if row.side == "device"])
    _side(screen, say_that.SUMS_OF_HOST, [row for row in rows if row.side == "host"])


def _side(screen: Screen, title: Message, rows: list[RecordedSum]) -> None:
    if not rows:
        return
    times, counts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in rows:
        times[row.name, row.detail] += row.total_ns
        counts[row.name, row.detail] += row.count or 0
    screen.gap()
    screen.line((screen.say(title), "bold"))
    for (name, detail), ns in times.most_common(_MOST):
        # Equal layers of several ranks have one share of all of their time.
        whole = sum(row.total_ns for row in rows if row.side == "device" or row.detail == detail)
        count = counts[name, detail]
        head = f"{duration(ns):>8} {fraction(ns / whole):>6} {f'x{count}' if count else '':>8}  "
        screen.raw(screen.shorten(f"{head}{name}  {detail}", screen.width - 2), indent=2)
