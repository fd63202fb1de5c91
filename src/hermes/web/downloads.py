"""What a page gives to take along: the report, whole tables, and what a question in SQL finds."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.responses import Response

from hermes.base.foreign_text import clean_cell
from hermes.model.tables import TABLES
from hermes.web.documents import LONGEST_PAGE, Ask, Page, safe
from hermes.web.study import Study

if TYPE_CHECKING:
    import polars as pl

    from hermes.model.report import Report

LONGEST_CSV = 1_000_000
"""Rows of a downloaded table: more than a spreadsheet takes."""
MOST_ROWS = 1_000
SECONDS = 20.0
"""For one question in SQL."""
REPORTS = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""The kinds of files that a report is given as."""


def attached(body: bytes, name: str, kind: str) -> Response:
    """A file that the browser keeps, and never shows as a page of this server."""
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def table_csv(page: Callable[[Ask], Page], ask: Ask) -> Iterator[bytes]:
    """The rows of a table that match, a stretch at a time, with exact values; texts that a spreadsheet would run stay
    texts.
    """
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
    """The report of a study as files; the page of one file is made when it is first asked for."""

    def __init__(self, study: Study) -> None:
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


def asked(study: Study, sql: str) -> dict[str, object]:
    """What a question in SQL finds: columns and at most `MOST_ROWS` rows. Raises `QueryError`."""
    from hermes.profiles.api import query

    found: pl.DataFrame = query(study.loaded, sql, most=MOST_ROWS + 1, seconds=SECONDS)
    rows = [list(map(safe, row)) for row in found.head(MOST_ROWS).iter_rows()]
    columns = [{"name": name, "number": kind.is_numeric()} for name, kind in found.schema.items()]
    return {"columns": columns, "rows": rows, "more": found.height > MOST_ROWS}


def described() -> dict[str, object]:
    """The tables that can be asked, each with its columns, as `hermes schema` tells them."""
    return {
        table.name: {
            "row": table.row,
            "columns": [[column.name, column.kind, column.unit, column.doc, column.null] for column in table.columns],
        }
        for table in TABLES.values()
    }
