"""Makes copies of reports with other rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from hermes.model.report import Report


def with_rows(report: Report, rows: Iterable[object], *, without: Collection[type] = ()) -> Report:
    """The report with these rows in place of the rows of their kinds, and without the kinds in `without`."""
    made = tuple(rows)
    gone = {*without, *map(type, made)}
    return replace(report, measured=(*(row for row in report.measured if type(row) not in gone), *made))
