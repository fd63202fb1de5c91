"""Makes the files that a page offers for download: the report, complete tables, and results of SQL queries."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.responses import Response

from hermes.base.sanitize_text import clean_cell
from hermes.model.tables import TABLES
from hermes.web.analysis_session import AnalysisSession
from hermes.web.document_pages import LONGEST_PAGE, Page, TableRequest, safe

if TYPE_CHECKING:
    import polars as pl

    from hermes.model.report import Report

LONGEST_CSV = 1_000_000
"""Largest number of rows in a downloaded table, more than a spreadsheet can open."""
MOST_ROWS = 1_000
SECONDS = 20.0
"""Time limit in s of one SQL query."""
REPORTS = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Media types of a report's files, by kind of file."""


def attached(body: bytes, name: str, kind: str) -> Response:
    """A file that the browser saves, and never shows as a page of this server."""
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def table_csv(page: Callable[[TableRequest], Page], ask: TableRequest) -> Iterator[bytes]:
    """The matching rows of a table as CSV, in stretches, with exact values; texts that a spreadsheet would run stay
    texts."""
    offset, head = 0, True
    while offset < LONGEST_CSV:
        found = page(replace(ask, offset=offset, limit=LONGEST_PAGE))
        names = [name for name, _ in found.columns]
        yield _lines(([names] if head else []) + [list(map(_cell, row)) for row in found.rows])
        offset, head = offset + LONGEST_PAGE, False
        if offset >= found.matching:
            return


def _cell(value: object) -> object:
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False)
    return clean_cell(value) if isinstance(value, str) else value


def _lines(rows: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode("utf-8", "replace")


class Reports:
    """The report of a study as files; the HTML page is made when it is first asked for."""

    def __init__(self, study: AnalysisSession) -> None:
        self._study = study
        self._pages: dict[tuple[str, str], bytes] = {}
        self._making = threading.Lock()

    def file(self, kind: str, language: str) -> bytes:
        """The document, the page or the workbook, as `hermes analyze` writes it; in English or Chinese."""
        from hermes.report.html import render_html
        from hermes.report.json_lines import dumps
        from hermes.report.spreadsheet import spreadsheet

        if kind == "html":
            return self._made(kind, language, lambda report: render_html(report, language).encode("utf-8", "replace"))
        if kind == "xlsx":
            return self._made(kind, language, lambda report: spreadsheet(report, language))
        return dumps(self._study.document).encode("utf-8", "replace")

    def _made(self, kind: str, language: str, make: Callable[[Report], bytes]) -> bytes:
        from hermes.profiles.api import analyze

        with self._making:
            if (kind, language) not in self._pages:
                self._pages[kind, language] = make(analyze(self._study.loaded))
            return self._pages[kind, language]


def query_result(study: AnalysisSession, sql: str) -> dict[str, object]:
    """The result of an SQL query: columns and at most `MOST_ROWS` rows. Raises `QueryError`."""
    from hermes.profiles.api import query

    found: pl.DataFrame = query(study.loaded, sql, most=MOST_ROWS + 1, seconds=SECONDS)
    rows = [list(map(safe, row)) for row in found.head(MOST_ROWS).iter_rows()]
    columns = [{"name": name, "number": kind.is_numeric()} for name, kind in found.schema.items()]
    return {"columns": columns, "rows": rows, "more": found.height > MOST_ROWS}


def described() -> dict[str, object]:
    """The tables that SQL can query, each with its columns, as `hermes schema` describes them."""
    return {
        table.name: {
            "row": table.row,
            "columns": [[column.name, column.kind, column.unit, column.doc, column.null] for column in table.columns],
        }
        for table in TABLES.values()
    }
