"""The shell: pages, their files and the document of an analysis, answered before any large library is loaded."""

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
from hermes.report import components, palette
from hermes.web import perfetto
from hermes.web.answers import KINDS, answer, refusal, spelt
from hermes.web.documents import Ask, columns_of, listed_page, told, told_page
from hermes.web.guard import Guard, Keys
from hermes.web.study import Study

PAGES = (
    # As the shell lists them: a test holds the two together.
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
"""What a page asks of a table without typing anything."""


def build(
    study: Study,
    *,
    keys: Keys,
    port: Callable[[], int],
    against: Sequence[Study] = (),
    environment: Mapping[str, str] = os.environ,
    source: Path | None = None,
    precision: tuple[Path, Path] | None = None,
) -> Guard:
    """The whole app behind its guard; `port` is asked when the first request comes.

    `against` are runs to compare with, read when first asked for; `source` is a program's tree to be moved to Ascend;
    `precision` are two recordings to compare. `environment` says where the run directories of jobs are.
    """

    def rest(busy: Callable[[], bool]) -> _Made:
        from hermes.web.app import routes

        return routes(study, against, environment, busy, source, precision)

    return Guard(Front(study, rest), keys=keys, port=port)


_Made = tuple[ASGIApp, Callable[[], None]]
"""The app behind, and what makes ahead what the pages will ask for."""
_Rest = Callable[[Callable[[], bool]], _Made]
"""Makes them; it is given what tells whether somebody waits for an answer."""


class Front:
    """Answers what needs no library, and hands on the rest, which is loaded after the first document was given."""

    def __init__(self, study: Study, rest: _Rest) -> None:
        self._study = study
        self._make = rest
        self._rest: _Made | None = None
        self._loading: asyncio.Task[_Made] | None = None
        self._begun = False
        self._making = threading.Lock()
        self._waiting = 0
        self._answered_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        # Who follows the jobs waits for ever.
        counts = scope["type"] == "http" and scope["path"] != "/api/live"
        self._waiting += counts
        try:
            await self._answer(scope, receive, send)
        finally:
            self._waiting -= counts
            self._answered_at = time.monotonic()

    def _busy(self) -> bool:
        """Whether somebody waits for an answer, or got one just now and may ask on."""
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
            await refusal(HermesError(f"a defect in Hermes ({defect!r})", lost="this answer"))(scope, receive, send)
            return
        await app(scope, receive, send)

    async def _loaded(self) -> _Made:
        # All who ask meanwhile wait for one thread; one that failed is begun anew.
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(asyncio.to_thread(self._whole))
        return await asyncio.shield(self._loading)

    async def _answered(self, path: str, query: QueryParams) -> Response | None:
        if path.startswith("/") and path[1:] in PAGES:
            return Response(static()["index.html"], media_type=KINDS[".html"])
        if path == "/favicon.ico":
            # Asked for by browsers where a page has not said yet that it has none.
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
            # The shell says so in words, with the way to the pages that there are.
            return Response(static()["index.html"], 404, media_type=KINDS[".html"])
        return None

    async def _report(self) -> Response:
        if self._study.state.phase in ("reading", "analysing"):
            # Accepted, and no error: browsers log those, and a page that is opened early has done nothing wrong.
            return answer({"waiting": True}, 202)
        found = Response(await asyncio.to_thread(self._study.summary), media_type="application/json")
        # What the page needs at once comes first.
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
        """The answer of a table of the document; None for any other, and for what has to be looked at closely."""
        table = self._study.tables.get(query.get("table", ""))
        if path == "/api/columns":
            return answer(columns_of(table, query.get("names", "").split(",")))
        if table is None:
            return None
        ask = _plain(query)
        return answer(told_page(listed_page(table, ask))) if ask else None


_PAUSE_S = 0.25
_QUIET_S = 0.1


def _plain(query: QueryParams) -> Ask | None:
    numbers = [query.get(name, "0") for name in ("offset", "limit", "rank")]
    if not set(query) <= _PLAIN or not all(text.isascii() and text.isdigit() and len(text) < 4 for text in numbers):
        return None
    rank = int(query["rank"]) if "rank" in query else None
    return Ask(
        table=query["table"], rank=rank, sort=query.get("sort", ""), descending=query.get("desc") == "1",
        offset=int(query.get("offset", 0)), limit=int(query.get("limit", 200)),
    )  # fmt: skip


def _state(study: Study) -> dict[str, object]:
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
        raise InputError("there is no such file", where=name)
    return Response(body, media_type=KINDS[PurePosixPath(name).suffix])


@cache
def _messages(name: str) -> bytes | None:
    """The sentences of a language; reading them needs a library."""
    language = name.removeprefix("messages.").removesuffix(".json")
    if language not in components.LANGUAGES:
        return None
    from hermes.report.messages_json import templates

    return told(templates(language))


@cache
def static() -> dict[str, bytes]:
    """Every file that is served, by its name below `static/`: what is not here cannot be asked for."""
    found: dict[str, bytes] = {"palette.css": palette.style().encode(), **components.files()}
    root = Path(__file__).parent / "static"
    for path in root.rglob("*"):
        if path.suffix in KINDS:
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found
