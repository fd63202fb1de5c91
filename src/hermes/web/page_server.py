"""The first layer of the server: pages, files and the document of an analysis, without any large library."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.base.errors import HermesError, InputError
from hermes.inside.wire.rundir import JOB_FILE
from hermes.report import palette, shared_assets
from hermes.web import messages, perfetto
from hermes.web.access_guard import Guard, SessionKeys
from hermes.web.analysis_session import AnalysisSession
from hermes.web.document_pages import TableRequest, columns_of, json_value, listed_page, told_page
from hermes.web.json_answers import KINDS, answer, refusal, spelt

PAGES = (
    # The pages in the order of the shell: a test compares the two lists.
    "",
    "steps",
    "ranks",
    "pipeline",
    "path",
    "operators",
    "communication",
    "host",
    "memory",
    "whatif",
    "compare",
    "migrate",
    "precision",
    "timeline",
    "data",
    "live",
)
_PLAIN = frozenset({"table", "rank", "offset", "limit", "sort", "desc"})
"""Query parameters of a table request without free text."""


def build(
    study: AnalysisSession,
    *,
    keys: SessionKeys,
    port: Callable[[], int],
    against: Sequence[AnalysisSession] = (),
    environment: Mapping[str, str] = os.environ,
    source: Path | None = None,
    precision: tuple[Path, Path] | None = None,
) -> Guard:
    """The complete app behind its guard; `port` is called at the first request.

    `against` are runs to compare with, read when first asked for; `source` is a program's tree to be moved to Ascend;
    `precision` are two recordings to compare. `environment` says where the run directories of jobs are.
    """

    def rest(busy: Callable[[], bool]) -> _Made:
        from hermes.web.data_routes import routes

        return routes(study, against, environment, busy, source, precision)

    return Guard(PageServer(study, rest), keys=keys, port=port)


_Made = tuple[ASGIApp, Callable[[], None]]
"""The app behind the front, and a function that computes answers ahead of the pages' requests."""
_Rest = Callable[[Callable[[], bool]], _Made]
"""A function that makes the app behind the front; its argument tells whether a request waits."""


class PageServer:
    """The layer that answers requests without libraries, and passes on the rest, which loads after the first
    document."""

    def __init__(self, study: AnalysisSession, rest: _Rest) -> None:
        self._study = study
        self._make = rest
        self._rest: _Made | None = None
        self._loading: asyncio.Task[_Made] | None = None
        self._begun = False
        self._making = threading.Lock()
        self._waiting = 0
        self._answered_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        # A page that follows the jobs waits for ever.
        counts = scope["type"] == "http" and scope["path"] != "/api/live"
        self._waiting += counts
        try:
            await self._answer(scope, receive, send)
        finally:
            self._waiting -= counts
            self._answered_at = time.monotonic()

    def _busy(self) -> bool:
        """Whether a request waits for an answer, or was answered just now, so another may follow."""
        return bool(self._waiting) or time.monotonic() - self._answered_at < _QUIET_S

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            try:
                found = await self._answered(str(scope["path"]), QueryParams(scope["query_string"]))
            except HermesError as wrong:
                found = refusal(wrong)
            if found is not None:
                await found(scope, receive, send)
                return
        try:
            app, _ = self._rest or await self._loaded()
        except Exception as defect:  # noqa: BLE001 - whatever it is, who asks must be told, and may ask again
            await refusal(HermesError(messages.defect(error=repr(defect)), lost=messages.LOST_ANSWER))(
                scope, receive, send
            )
            return
        await app(scope, receive, send)

    async def _loaded(self) -> _Made:
        # Requests that arrive meanwhile wait for one thread; a failed load is begun anew.
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(asyncio.to_thread(self._whole))
        return await asyncio.shield(self._loading)

    async def _answered(self, path: str, query: QueryParams) -> Response | None:
        if path.startswith("/") and path[1:] in PAGES:
            return Response(static()["index.html"], media_type=KINDS[".html"])
        if path == "/favicon.ico":
            # Browsers ask for this icon before a page has said that there is none.
            return Response(status_code=204)
        if path.startswith("/static/"):
            return _file(path.removeprefix("/static/"))
        if path == "/api/state":
            return answer(_state(self._study))
        if path == "/api/report":
            return await self._report()
        if path in ("/api/columns", "/api/rows"):
            return await asyncio.to_thread(self._listed, path, query)
        if path.count("/") == 1 and path != "/api":
            # The shell says in words that the page is missing, and links the existing pages.
            return Response(static()["index.html"], 404, media_type=KINDS[".html"])
        return None

    async def _report(self) -> Response:
        if self._study.state.phase in ("reading", "analysing"):
            # The status is accepted, and no error: browsers log errors, and a page that is opened early has done
            # nothing wrong.
            return answer({"waiting": True}, 202)
        found = Response(await asyncio.to_thread(self._study.summary), media_type="application/json")
        # Data that the page needs immediately comes first.
        asyncio.get_running_loop().call_later(_PAUSE_S, self._begin)
        return found

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._ahead, name="hermes-ahead", daemon=True).start()

    def _ahead(self) -> None:
        _, ahead = self._whole()
        ahead()

    def _whole(self) -> _Made:
        with self._making:
            if self._rest is None:
                self._rest = self._make(self._busy)
            return self._rest

    def _listed(self, path: str, query: QueryParams) -> Response | None:
        """The answer for a table of the document; None for another table, and for a request that needs full checks."""
        table = self._study.tables.get(query.get("table", ""))
        if path == "/api/columns":
            return answer(columns_of(table, query.get("names", "").split(",")))
        if table is None:
            return None
        ask = _plain(query)
        return answer(told_page(listed_page(table, ask))) if ask else None


_PAUSE_S = 0.25
_QUIET_S = 0.1


def _plain(query: QueryParams) -> TableRequest | None:
    numbers = [query.get(name, "0") for name in ("offset", "limit", "rank")]
    if not set(query) <= _PLAIN or not all(text.isascii() and text.isdigit() and len(text) < 4 for text in numbers):
        return None
    rank = int(query["rank"]) if "rank" in query else None
    return TableRequest(
        table=query["table"], rank=rank, sort=query.get("sort", ""), descending=query.get("desc") == "1",
        offset=int(query.get("offset", 0)), limit=int(query.get("limit", 200)),
    )  # fmt: skip


def _state(study: AnalysisSession) -> dict[str, object]:
    now = study.state
    folder = perfetto.folder()
    return {
        "phase": now.phase,
        "seconds": round(now.seconds, 3),
        "paths": [str(path) for path in study.paths],
        "error": spelt(now.error) if now.error else None,
        "timeline": folder.name if folder else None,
        "job": any((path / JOB_FILE).is_file() for path in study.paths),
    }


def _file(name: str) -> Response:
    body = _messages(name) if name.startswith("messages.") else static().get(name)
    if body is None:
        raise InputError(messages.NO_FILE, where=name)
    return Response(body, media_type=KINDS[PurePosixPath(name).suffix])


@cache
def _messages(name: str) -> bytes | None:
    """The sentences of a language; reading them needs a library."""
    language = name.removeprefix("messages.").removesuffix(".json")
    if language not in shared_assets.LANGUAGES:
        return None
    from hermes.report.messages_json import templates

    return json_value(templates(language))


@cache
def static() -> dict[str, bytes]:
    """Every served file, by its name below `static/`: no other file can be requested."""
    found: dict[str, bytes] = {"palette.css": palette.style().encode(), **shared_assets.files()}
    root = Path(__file__).parent / "static"
    for path in root.rglob("*"):
        if path.suffix in KINDS:
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found
