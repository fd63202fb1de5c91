"""The app: pages, and the JSON that they ask for."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, cast

import duckdb
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from hermes.base.errors import HermesError, InputError
from hermes.report import copying, palette
from hermes.report.perfetto import write_timeline
from hermes.tables import TABLES
from hermes.web import perfetto
from hermes.web.compares import PREFIX, Compares
from hermes.web.curves import curve
from hermes.web.guard import Guard, Keys
from hermes.web.jobs import FullError, Jobs
from hermes.web.replays import MOST_CHANGES, Replays
from hermes.web.rows import Ask, Browser, Kept, Page, safe
from hermes.web.study import NotReadyError, Study
from hermes.workflow.timeline import Cut, first_moment, timeline

PAGES = (
    # As the shell lists them: a test holds the two together.
    "",
    "steps",
    "ranks",
    "path",
    "operators",
    "communication",
    "host",
    "memory",
    "whatif",
    "compare",
    "timeline",
    "data",
    "live",
)
_FIRST_ROWS = 200
_KINDS = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml", ".wasm": "application/wasm", ".woff2": "font/woff2",
    ".png": "image/png",
}  # fmt: skip
_FOUND = 40
_KEPT_TIMELINES = 4
_MOST_NUMBERS = 2_000
_BODY_SECONDS = 10.0


class Site:
    """What the routes share: one study and what was made of it, the runs before it, and the jobs that run."""

    def __init__(self, study: Study, against: Sequence[Study], jobs: Jobs) -> None:
        self.study = study
        self.jobs = jobs
        self.compares = Compares(study, against)
        self._browser: Browser | None = None
        self._lock = threading.Lock()
        self._timelines = Kept(_KEPT_TIMELINES)
        self.replays = Replays(study)

    @property
    def browser(self) -> Browser:
        """The tables; raises `NotReadyError`, or why there are none."""
        with self._lock:
            if self._browser is None:
                self._browser = Browser(self.study)
            return self._browser

    def timeline(self, cut: Cut) -> bytes:
        """The timeline of a part of the input, in Perfetto's format."""
        return self._timelines.of(cut, lambda: self._timeline(cut))

    def window(self, first_ns: int, last_ns: int) -> tuple[int, int]:
        """A stretch of the common clock as `Cut` counts it."""
        start = first_moment(self.study.loaded, self.study.whole())
        return first_ns - start, last_ns - start

    def _timeline(self, cut: Cut) -> bytes:
        shown = timeline(self.study.loaded, cut, self.study.whole())
        out = io.BytesIO()
        write_timeline(shown.lanes, shown.curves, out)
        return out.getvalue()


def build(
    study: Study,
    *,
    keys: Keys,
    port: Callable[[], int],
    against: Sequence[Study] = (),
    environment: Mapping[str, str] = os.environ,
) -> Guard:
    """The whole app behind its guard; `port` is asked when the first request comes.

    `against` are runs to compare with, read when first asked for. `environment` says where the run directories of jobs
    are.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    site = Site(study, against, Jobs(environment))
    _errors(app)
    _pages(app)
    _data(app, site)
    _timelines(app, site)
    _whatif(app, site)
    _compare(app, site)
    _live(app, site.jobs)
    return Guard(app, keys=keys, port=port)


def _errors(app: FastAPI) -> None:
    def wrong(request: Request, error: Exception) -> Response:
        known = cast(HermesError, error)
        status = 503 if isinstance(error, (NotReadyError, FullError)) else 404 if isinstance(error, InputError) else 500
        return JSONResponse({"error": _error(known)}, status_code=status)

    def gone(request: Request, error: Exception) -> Response:
        lost = HermesError(
            "the cached tables cannot be read", where=str(error).splitlines()[0][:300], lost="this table",
            hint="was the cache cleared? Stop the server and start it again",
        )  # fmt: skip
        return JSONResponse({"error": _error(lost)}, status_code=500)

    def invalid(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": _error(HermesError("the request makes no sense"))}, status_code=422)

    def missing(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": _error(HermesError("there is nothing here"))}, status_code=404)

    app.add_exception_handler(HermesError, wrong)
    app.add_exception_handler(duckdb.Error, gone)
    app.add_exception_handler(OSError, gone)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(404, missing)


def _error(error: HermesError) -> dict[str, str]:
    return {"what": error.what, "where": error.where, "lost": error.lost, "hint": error.hint}


def _pages(app: FastAPI) -> None:
    """The one HTML page under all its names, and its files by their names, which are listed once."""
    static = _static()

    def page() -> Response:
        return Response(static["index.html"], media_type=_KINDS[".html"])

    for name in PAGES:
        app.add_api_route(f"/{name}", page, methods=["GET", "HEAD"])

    @app.get("/favicon.ico")
    def icon() -> Response:
        # Asked for by browsers where a page has not said yet that it has none.
        return Response(status_code=204)

    @app.get("/static/{name:path}")
    def asset(name: str) -> Response:
        body = static.get(name)
        if body is None:
            raise InputError("there is no such file", where=name)
        return Response(body, media_type=_KINDS[PurePosixPath(name).suffix])


@cache
def _static() -> dict[str, bytes]:
    """Every file that is served, by its name below `static/`: what is not here cannot be asked for."""
    found: dict[str, bytes] = {"palette.css": palette.style().encode(), "copying.js": copying.module().encode()}
    root = Path(str(files("hermes.web") / "static"))
    for path in root.rglob("*"):
        if path.suffix in _KINDS:
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def _data(app: FastAPI, site: Site) -> None:
    @app.get("/api/state")
    def state() -> Response:
        now = site.study.state
        return _json(
            {
                "phase": now.phase,
                "seconds": round(now.seconds, 3),
                "paths": [str(path) for path in site.study.paths],
                "error": _error(now.error) if now.error else None,
                "timeline": perfetto.folder().name if perfetto.folder() else None,  # type: ignore[union-attr]
            }
        )

    @app.get("/api/report")
    def report() -> Response:
        if site.study.state.phase in ("reading", "analysing"):
            # Accepted, and no error: browsers log those, and a page that is opened early has done nothing wrong.
            return JSONResponse({"waiting": True}, status_code=202)
        return _json(_summary(site))

    @app.get("/api/columns")
    def columns(table: str, names: str) -> Response:
        found = next((one for one in site.browser.document_tables if one.key == table), None)
        wanted = names.split(",")
        if found is None or not set(wanted) <= set(found.columns):
            return _json({name: [] for name in wanted})
        return _json({name: [safe(row.get(name)) for row in found.rows] for name in wanted})

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
        ask = Ask(
            table=table, rank=rank, sort=sort, descending=desc, words=tuple(filter.split()), only=_pairs(only or []),
            within=None if first_ns is None or last_ns is None else (first_ns, last_ns), offset=offset, limit=limit,
        )  # fmt: skip
        return _json(_page(site.compares.page(before, ask) if table.startswith(PREFIX) else site.browser.page(ask)))

    @app.get("/api/sizes")
    def sizes(rank: int) -> Response:
        return _json({name: [rows, TABLES[name].row] for name, rows in site.browser.sizes(rank).items()})

    @app.get("/api/search")
    def search(q: Annotated[str, Query(max_length=200)] = "") -> Response:
        return _json(_found(site, q))

    @app.get("/api/curve")
    def curves(
        table: str,
        rank: int,
        key: Annotated[list[str], Query(max_length=4)],
        buckets: Annotated[int, Query(ge=1, le=2_000)] = 600,
    ) -> Response:
        return _json(curve(site.browser, table, rank, tuple(key), buckets))


def _timelines(app: FastAPI, site: Site) -> None:
    @app.get("/api/timeline.pftrace")
    def trace(ranks: str = "", steps: str = "", first_ns: int | None = None, last_ns: int | None = None) -> Response:
        window = None if first_ns is None or last_ns is None else site.window(first_ns, last_ns)
        cut = Cut(ranks=_numbers(ranks), steps=_numbers(steps), window_ns=window)
        return Response(site.timeline(cut), media_type="application/octet-stream")

    @app.get("/perfetto/{name:path}")
    def ui(name: str) -> Response:
        if perfetto.folder() is None:
            raise InputError("the Perfetto UI is not installed", hint="pip install 'hermes-perf[timeline]'")
        path = perfetto.assets().get(name or "index.html")
        if path is None:
            raise InputError("there is no such file", where=name)
        kind = _KINDS.get(path.suffix, "application/octet-stream")
        headers = {"content-security-policy": perfetto.policy(), "cache-control": "private, max-age=86400"}
        return FileResponse(path, media_type=kind, headers=headers)


def _whatif(app: FastAPI, site: Site) -> None:
    @app.get("/api/whatif")
    def changes() -> Response:
        return _json(site.replays.changes())

    @app.get("/api/whatif/replay")
    def replayed(
        chosen: Annotated[list[str] | None, Query(alias="set", max_length=MOST_CHANGES)] = None,
        rank: int | None = None,
    ) -> Response:
        return _json(site.replays.replayed(chosen or [], rank))


def _compare(app: FastAPI, site: Site) -> None:
    @app.get("/api/compare")
    def compared(before: int = 0) -> Response:
        return _json(site.compares.found(before))


def _live(app: FastAPI, jobs: Jobs) -> None:
    @app.get("/api/live")
    async def live() -> Response:
        jobs.refuse()
        return StreamingResponse(jobs.stream(), media_type="text/event-stream")

    @app.post("/api/live/capture")
    async def capture(request: Request) -> Response:
        said = await _said(request)
        return _json(await asyncio.to_thread(jobs.capture, said))

    @app.post("/api/live/cancel")
    async def cancel(request: Request) -> Response:
        said = await _said(request)
        return _json(await asyncio.to_thread(jobs.cancel, said))


async def _said(request: Request) -> object:
    """The body as JSON; the guard has seen that it is short."""
    try:
        return json.loads(await asyncio.wait_for(request.body(), _BODY_SECONDS))
    except (ValueError, RecursionError, TimeoutError, ClientDisconnect) as wrong:
        raise InputError("the request is no JSON") from wrong


def _json(value: object) -> Response:
    body = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(body.encode("utf-8", "replace"), media_type="application/json")


def _page(page: Page) -> dict[str, object]:
    return {
        "columns": [{"name": name, "kind": kind} for name, kind in page.columns],
        "total": page.total,
        "matching": page.matching,
        "rows": page.rows,
    }


def _summary(site: Site) -> dict[str, object]:
    """The document with the first rows of its long tables, and what tables there are."""
    document = site.study.document
    tables = [
        {"key": table.key, "rows": len(table.rows), "columns": list(table.columns)}
        for table in site.browser.document_tables
    ]
    return {"document": _shortened(document), "tables": tables}


def _shortened(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value[:_FIRST_ROWS]]
    return safe(value)


def _found(site: Site, text: str) -> list[dict[str, object]]:
    """Names that hold every word, the longest total first."""
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
        raise InputError("this is no list of numbers", where="ranks or steps", hint="write it like 0,4,5")
    return frozenset(map(int, parts))
