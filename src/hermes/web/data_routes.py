"""Answers the pages' requests for data: tables, curves, timelines, replays, comparisons and running jobs."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, cast

import duckdb
import polars as pl
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from hermes.base.errors import HermesError, InputError
from hermes.jobs.api import Change, changes, logged
from hermes.model.tables import TABLES
from hermes.profiles.api import TimelineCut, first_moment, timeline
from hermes.report import chinese_sentences
from hermes.report.perfetto import write_timeline
from hermes.web import messages, perfetto
from hermes.web.analysis_session import AnalysisSession
from hermes.web.cached_columns import ResultCache
from hermes.web.curves import curve
from hermes.web.document_pages import TableRequest, safe, told_page
from hermes.web.downloads import REPORTS, Reports, attached, described, query_result, table_csv
from hermes.web.jobs import Jobs, text_in_languages
from hermes.web.json_answers import KINDS, LONGEST_DEFECT, answer, refusal, spelt
from hermes.web.migrations import Migration
from hermes.web.page_comparisons import PREFIX, Compares
from hermes.web.page_precision import Precision
from hermes.web.page_replays import MOST_CHANGES, Replays
from hermes.web.table_pages import ALL_RANKS, TableBrowser

_FOUND = 40
_TIMELINES_BYTES = 256 << 20
_KEPT_CURVES = 100
_PAUSE_S = 0.1
_MOST_NUMBERS = 2_000
_BODY_SECONDS = 10.0


class Site:
    """The state that the routes share: one study with its results, the runs to compare with, and the running jobs."""

    def __init__(
        self, study: AnalysisSession, against: Sequence[AnalysisSession], jobs: Jobs, environment: Mapping[str, str]
    ) -> None:
        self.study, self.jobs, self._environment = study, jobs, environment
        self.compares = Compares(study, against)
        self._browser: TableBrowser | None = None
        self._lock = threading.Lock()
        self._timelines = ResultCache(_TIMELINES_BYTES)
        self._curves = ResultCache(_KEPT_CURVES)
        self._histories = ResultCache(1)
        self.replays = Replays(study)

    @property
    def browser(self) -> TableBrowser:
        """The study's tables; raises `NotReadyError`, or the error of the study."""
        with self._lock:
            if self._browser is None:
                self._browser = TableBrowser(self.study)
            return self._browser

    def curve(self, table: str, rank: int, key: tuple[str, ...], buckets: int) -> dict[str, object]:
        """A curve over the whole time of a table."""
        return self._curves.of((table, rank, key, buckets), lambda: curve(self.browser, table, rank, key, buckets))

    def history(self) -> dict[str, object]:
        """The step log of the job that the profile is a part of, if there is one, and where its steps changed."""
        return self._histories.of(None, self._history)

    def _history(self) -> dict[str, object]:
        log = logged(self.study.paths, self._environment)
        walls: dict[int, list[tuple[int, int]]] = {}
        for row in self.study.tables["steps"].rows if "steps" in self.study.tables else ():
            rank, step, window = row["rank"], row["step"], row["window_ms"]
            if isinstance(rank, int) and isinstance(step, int) and isinstance(window, (int, float)):
                walls.setdefault(rank, []).append((step, round(window * 1e6)))
        return {
            "changes": list(map(_change, changes(walls, self._environment))),
            "log": log and {
                "folder": str(log.folder), "ranks": log.ranks, "steps": log.steps, "points": log.points,
                "captured": log.captured, "changes": list(map(_change, log.changes)),
            },
        }  # fmt: skip

    def ahead(self, busy: Callable[[], bool]) -> None:
        """Compute the answers that pages ask for first, piece by piece, while no request waits."""
        # An error is reported to the page that asks.
        with contextlib.suppress(HermesError, OSError, duckdb.Error, pl.exceptions.PolarsError):
            seen = [rank.rank for rank in self.study.loaded.ranks]
            verdict = cast(Mapping[str, int | None], self.study.document["verdict"])
            named = verdict["rank"]
            chief = seen[0] if named is None else named
            for piece in (
                # The replays go on in a thread of their own, and take longest.
                self.replays.changes,
                *self.browser.ahead(None if 1 < len(seen) <= ALL_RANKS else chief, chief),
                self.history,
            ):
                while busy():
                    time.sleep(_PAUSE_S)
                piece()

    def timeline(self, cut: TimelineCut, language: str) -> bytes:
        """The timeline of a part of the input, in Perfetto's format."""
        return self._timelines.of((cut, language), lambda: self._timeline(cut, language), len)

    def window(self, first_ns: int, last_ns: int) -> tuple[int, int]:
        """A stretch of the common clock, converted to the clock of `TimelineCut`."""
        start = first_moment(self.study.loaded, self.study.whole())
        return first_ns - start, last_ns - start

    def _timeline(self, cut: TimelineCut, language: str) -> bytes:
        shown = timeline(self.study.loaded, cut, self.study.whole())
        out = io.BytesIO()
        write_timeline(shown.lanes, shown.curves, out, say=chinese_sentences.labelled if language == "zh" else None)
        return out.getvalue()


def routes(
    study: AnalysisSession, against: Sequence[AnalysisSession], environment: Mapping[str, str],
    busy: Callable[[], bool], source: Path | None = None, precision: tuple[Path, Path] | None = None,
) -> tuple[ASGIApp, Callable[[], None]]:  # fmt: skip
    """The routes that `PageServer` does not answer itself; `against` are runs to compare with, read on first request.

    Also returns a function that computes answers ahead while no request waits, as `busy` tells.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    site = Site(study, against, Jobs(environment), environment)
    _errors(app)
    _data(app, site)
    _downloads(app, site)
    _timelines(app, site)
    _whatif(app, site)
    _compare(app, site)
    _migrate(app, Migration(source))
    _precision(app, Precision(precision))
    _live(app, site.jobs)
    return app, partial(site.ahead, busy)


def _errors(app: FastAPI) -> None:
    def wrong(request: Request, error: Exception) -> Response:
        return refusal(cast(HermesError, error))

    def gone(request: Request, error: Exception) -> Response:
        lost = HermesError(
            messages.TABLES_GONE, where=str(error).splitlines()[0][:300], lost=messages.LOST_TABLE,
            hint=messages.DO_RESTART,
        )  # fmt: skip
        return refusal(lost)

    def invalid(request: Request, error: Exception) -> Response:
        return answer({"error": spelt(HermesError(messages.NO_SENSE))}, 422)

    def missing(request: Request, error: Exception) -> Response:
        return answer({"error": spelt(HermesError(messages.NOTHING_HERE))}, 404)

    def defect(request: Request, error: Exception) -> Response:
        return refusal(HermesError(messages.defect(error=repr(error)[:LONGEST_DEFECT]), lost=messages.LOST_ANSWER))

    app.add_exception_handler(HermesError, wrong)
    app.add_exception_handler(Exception, defect)
    app.add_exception_handler(duckdb.Error, gone)
    app.add_exception_handler(pl.exceptions.PolarsError, gone)
    app.add_exception_handler(OSError, gone)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(404, missing)


def _data(app: FastAPI, site: Site) -> None:
    @app.get("/api/rows")
    def rows(
        table: str,
        rank: int | None = None,
        sort: str = "",
        desc: bool = False,
        filter: Annotated[str, Query(max_length=500)] = "",
        only: Annotated[list[str] | None, Query(max_length=8)] = None,
        first_ns: int | None = None,
        last_ns: int | None = None,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=0, le=1_000)] = 200,
        before: int = 0,
    ) -> Response:
        ask = TableRequest(
            table=table, rank=rank, sort=sort, descending=desc, words=tuple(filter.split()), only=_pairs(only or []),
            within=None if first_ns is None or last_ns is None else (first_ns, last_ns), offset=offset, limit=limit,
        )  # fmt: skip
        return answer(
            told_page(site.compares.page(before, ask) if table.startswith(PREFIX) else site.browser.page(ask))
        )

    @app.get("/api/sizes")
    def sizes(rank: int) -> Response:
        return answer({name: [rows, TABLES[name].row] for name, rows in site.browser.sizes(rank).items()})

    @app.get("/api/search")
    def search(q: Annotated[str, Query(max_length=200)] = "") -> Response:
        return answer(_found(site, q))

    @app.get("/api/curve")
    def curves(
        table: str,
        rank: int,
        key: Annotated[list[str], Query(max_length=4)],
        buckets: Annotated[int, Query(ge=1, le=2_000)] = 600,
    ) -> Response:
        return answer(site.curve(table, rank, tuple(key), buckets))

    @app.get("/api/history")
    def history() -> Response:
        return answer(site.history())

    @app.get("/api/flame")
    def flames(rank: int, step: int | None = None, whole: bool = False) -> Response:
        return answer(site.browser.flame(rank, step, whole=whole))


def _downloads(app: FastAPI, site: Site) -> None:
    reports = Reports(site.study)

    @app.get("/api/download/report.{kind}")
    def document(kind: Literal["json", "html", "xlsx"], lang: Literal["en", "zh"] = "en") -> Response:
        return attached(reports.file(kind, lang), f"hermes-report.{kind}", REPORTS[kind])

    @app.get("/api/download/table.csv")
    def table(
        table: Annotated[str, Query(max_length=100)], rank: int | None = None, sort: str = "", desc: bool = False,
        filter: Annotated[str, Query(max_length=500)] = "",
        only: Annotated[list[str] | None, Query(max_length=8)] = None, before: int = 0,
    ) -> Response:  # fmt: skip
        ask = TableRequest(table=table, rank=rank, sort=sort, descending=desc, words=tuple(filter.split()),
                           only=_pairs(only or []))  # fmt: skip
        rows = table_csv(partial(site.compares.page, before) if table.startswith(PREFIX) else site.browser.page, ask)
        # The first stretch is made here: an error in the request is then sent as an error.
        first = next(rows)
        name = "".join(one for one in table if one.isalnum() or one in "._-")
        said = {"content-disposition": f'attachment; filename="{name}.csv"'}
        return StreamingResponse(chain([first], rows), media_type="text/csv; charset=utf-8", headers=said)

    @app.get("/api/sql")
    def sql(q: Annotated[str, Query(min_length=1, max_length=4_000)]) -> Response:
        return answer(query_result(site.study, q))

    @app.get("/api/tables")
    def tables() -> Response:
        return answer(described())


def _timelines(app: FastAPI, site: Site) -> None:
    @app.get("/api/timeline.pftrace")
    def trace(
        ranks: str = "", steps: str = "", first_ns: int | None = None, last_ns: int | None = None, lang: str = "en"
    ) -> Response:
        window = None if first_ns is None or last_ns is None else site.window(first_ns, last_ns)
        cut = TimelineCut(ranks=_numbers(ranks), steps=_numbers(steps), window_ns=window)
        return Response(site.timeline(cut, lang), media_type="application/octet-stream")

    @app.get("/perfetto/{name:path}")
    def ui(name: str) -> Response:
        if perfetto.folder() is None:
            raise InputError(messages.NO_PERFETTO, hint=messages.DO_INSTALL_PERFETTO)
        path = perfetto.assets().get(name or "index.html")
        if path is None:
            raise InputError(messages.NO_FILE, where=name)
        kind = KINDS.get(path.suffix, "application/octet-stream")
        headers = {"content-security-policy": perfetto.policy(), "cache-control": "private, max-age=86400"}
        return FileResponse(path, media_type=kind, headers=headers)


def _whatif(app: FastAPI, site: Site) -> None:
    @app.get("/api/whatif")
    def changes() -> Response:
        return answer(site.replays.changes())

    @app.get("/api/whatif/replay")
    def replayed(
        chosen: Annotated[list[str] | None, Query(alias="set", max_length=MOST_CHANGES)] = None,
        rank: int | None = None,
    ) -> Response:
        return answer(site.replays.replayed(chosen or [], rank))


def _compare(app: FastAPI, site: Site) -> None:
    @app.get("/api/compare")
    def compared(before: int = 0) -> Response:
        return answer(site.compares.found(before))


def _migrate(app: FastAPI, migration: Migration) -> None:
    @app.get("/api/migrate")
    def found(style: Annotated[str, Query(max_length=20)] = "native") -> Response:
        return answer(migration.found(style))

    @app.get("/api/migrate/file")
    def file(path: Annotated[str, Query(max_length=4_096)], style: str = "native") -> Response:
        return answer(migration.file(style, path))


def _precision(app: FastAPI, precision: Precision) -> None:
    @app.get("/api/precision")
    def found() -> Response:
        return answer(precision.found())

    @app.get("/api/precision/rows")
    def rows(
        first: Annotated[int, Query(ge=0)] = 0, count: Annotated[int, Query(gt=0)] = 50,
        state: Annotated[str, Query(max_length=20)] = "", module: Annotated[str, Query(max_length=4_096)] = "",
    ) -> Response:  # fmt: skip
        return answer(precision.rows(first, count, state, module))


def _live(app: FastAPI, jobs: Jobs) -> None:
    @app.get("/api/live")
    async def live() -> Response:
        jobs.refuse()
        return StreamingResponse(jobs.stream(), media_type="text/event-stream")

    @app.get("/live/reports/{job}/{capture}")
    def report(job: str, capture: str) -> Response:
        # A report is a page in the folder of a job: its scripts may run, but may connect to no server, this one
        # included.
        return FileResponse(jobs.report(job, capture), headers={"content-security-policy": _ALONE})

    @app.post("/api/live/capture")
    async def capture(request: Request) -> Response:
        said = await _said(request)
        return answer(await asyncio.to_thread(jobs.capture, said))

    @app.post("/api/live/cancel")
    async def cancel(request: Request) -> Response:
        said = await _said(request)
        return answer(await asyncio.to_thread(jobs.cancel, said))


_ALONE = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def _said(request: Request) -> object:
    """The request body as JSON; the guard has checked its length."""
    try:
        return json.loads(await asyncio.wait_for(request.body(), _BODY_SECONDS))
    except (ValueError, RecursionError, TimeoutError, ClientDisconnect) as wrong:
        raise InputError(messages.NO_JSON) from wrong


def _change(one: Change) -> dict[str, object]:
    alarm, cause = one.alarm, one.cause
    return {
        "rank": alarm.rank, "kind": alarm.kind.value, "since": alarm.since, "step": alarm.step,
        "before_ns": alarm.before_ns, "after_ns": alarm.after_ns,
        "cause": text_in_languages(cause.name.message) if cause else None,
        "do": text_in_languages(cause.name.remedy) if cause else None,
    }  # fmt: skip


def _found(site: Site, text: str) -> list[dict[str, object]]:
    """Names that hold every word, the longest total time first."""
    words = text.lower().split()
    if not words:
        return []
    names = site.browser.names()
    lower = names["name"].str.to_lowercase()
    for word in words:
        kept = lower.str.contains(word, literal=True)
        names, lower = names.filter(kept), lower.filter(kept)
    return [
        {"name": name, "kind": kind, "total_ns": safe(total)} for name, kind, total in names.head(_FOUND).iter_rows()
    ]


def _pairs(texts: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((column, text) for column, _, text in (item.partition("=") for item in texts))


def _numbers(text: str) -> frozenset[int] | None:
    if not text:
        return None
    parts = text.split(",")
    if len(parts) > _MOST_NUMBERS or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts):
        raise InputError(messages.NO_NUMBERS, where="ranks or steps", hint=messages.DO_NUMBERS)
    return frozenset(map(int, parts))
