"""Checks who may use the server, and what a browser may do with its answers: one layer around the whole app."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_TARGET = 8_192
"""Largest number of bytes of path and query together."""
LONGEST_HEAD = 16_384
"""Largest number of bytes of all headers together."""
LONGEST_BODY = 16_384
"""The largest request body, in bytes."""
ACTIONS = frozenset({"/api/live/capture", "/api/live/cancel"})
"""Paths that accept POST; all other paths are only read."""
_SESSIONS = 64
"""Number of remembered browser sessions; the oldest one is forgotten first."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "x-frame-options": "SAMEORIGIN",
}


class SessionKeys:
    """The token of the next link, and the sessions that earlier links were exchanged for.

    A link works once: whoever reads a used link later, in a history or over a shoulder, cannot use it. `announce` is
    called with the next token whenever one was used.
    """

    def __init__(self, announce: Callable[[str], None] = lambda token: None) -> None:
        self.token = secrets.token_urlsafe(32)
        self._announce = announce
        self._sessions: dict[str, None] = {}

    def exchange(self, token: str) -> str | None:
        """A new session for the token, which then becomes invalid; None for a wrong token."""
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return None
        self.token = secrets.token_urlsafe(32)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        while len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._announce(self.token)
        return session

    def knows(self, session: str) -> bool:
        """Whether a link was exchanged for this session."""
        return session in self._sessions


class Guard:
    """The guard that refuses requests from other origins and large requests, and puts the policy on every answer."""

    def __init__(self, app: ASGIApp, *, keys: SessionKeys, port: Callable[[], int]) -> None:
        self._app = app
        self._keys = keys
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, or pass the request on to the app."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = _headers(scope)
        refused = self._refused(scope, headers)
        if refused:
            await _refuse(scope, send, *refused)
        elif token := _token(scope):
            await self._exchange(scope, send, token)
        elif not self._keys.knows(_cookie(headers, self._cookie_name())):
            await _refuse(scope, send, 401, _NO_KEY)
        else:
            await self._app(scope, receive, _with_policy(send))

    def _cookie_name(self) -> str:
        # Cookies know no ports: two servers must not replace each other's session cookies.
        return f"hermes-{self._port()}"

    def _refused(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        hosts = [f"{name}:{self._port()}" for name in ("127.0.0.1", "localhost", "[::1]")]
        if len(headers.get("host", ())) != 1 or headers["host"][0].lower() not in hosts:
            return 421, f"this server answers to {hosts[0]} and {hosts[1]} alone; forward the same port number"
        origins = headers.get("origin", [])
        if any(origin != f"http://{headers['host'][0]}" for origin in origins):
            return 403, "another origin asks"
        away = headers.get("sec-fetch-site", ["none"])[0] in ("cross-site", "same-site")
        if away and headers.get("sec-fetch-mode", [""])[0] != "navigate":
            return 403, "another site asks"
        acts = scope["method"] == "POST" and scope["path"] in ACTIONS
        if not acts and scope["method"] not in ("GET", "HEAD"):
            return 405, "only GET and HEAD"
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_TARGET:
            return 414, f"the address has more than {LONGEST_TARGET} bytes"
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEAD:
            return 431, f"the headers have more than {LONGEST_HEAD} bytes"
        if acts:
            return _refused_action(headers)
        if headers.get("transfer-encoding") or headers.get("content-length", ["0"]) != ["0"]:
            return 413, "no request needs a body"
        return None

    async def _exchange(self, scope: Scope, send: Send, token: str) -> None:
        session = self._keys.exchange(token)
        if session is None:
            await _refuse(scope, send, 401, _SPENT)
            return
        # Not a redirect: after a link on another page, the browser would not send a strict cookie with it.
        target = quote(scope["path"], safe="/-_.~")
        target = "/" + target.lstrip("/")
        rest = _without_token(scope)
        body = _REFRESH.format(target=f"{target}?{rest}" if rest else target)
        cookie = f"{self._cookie_name()}={session}; Path=/; HttpOnly; SameSite=Strict"
        await _answer(scope, send, 200, "text/html; charset=utf-8", body, {"set-cookie": cookie})


def _refused_action(headers: dict[str, list[str]]) -> tuple[int, str] | None:
    """Why an action is refused: only a script of Hermes' own pages may act, by origin and by a type that no form can
    send."""
    if len(headers.get("origin", [])) != 1:
        return 403, "the request does not say where it is from"
    if headers.get("sec-fetch-site", ["same-origin"]) != ["same-origin"]:
        return 403, "another site asks"
    if headers.get("content-type") != ["application/json"]:
        return 415, "only application/json"
    length = headers.get("content-length", [])
    if headers.get("transfer-encoding") or len(length) != 1 or not length[0].isascii() or not length[0].isdigit():
        return 411, "the request does not say how long it is"
    if len(length[0]) > len(str(LONGEST_BODY)) or int(length[0]) > LONGEST_BODY:
        return 413, f"the request has more than {LONGEST_BODY} bytes"
    return None


_REFRESH = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Hermes</title>'
    '<meta http-equiv="refresh" content="0;url={target}"><p><a href="{target}">Hermes</a></p></html>'
)
_NO_KEY = "this browser has no key: open the link that `hermes serve` printed last"
_SPENT = "this link was used before, or is of another server: open the link that `hermes serve` printed last"


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _cookie(headers: dict[str, list[str]], name: str) -> str:
    for line in headers.get("cookie", ()):
        try:
            found = SimpleCookie(line).get(name)
        except CookieError:
            continue
        if found:
            value: str = found.value
            return value
    return ""


def _token(scope: Scope) -> str:
    text: str = scope["query_string"].decode("latin-1")
    return parse_qs(text).get("token", [""])[0]


def _without_token(scope: Scope) -> str:
    """The query without the token, in a form that is safe in an attribute."""
    query = parse_qs(scope["query_string"].decode("latin-1"))
    pairs = [(key, value) for key, values in query.items() if key != "token" for value in values]
    return "&amp;".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in pairs)


def _with_policy(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            # The Perfetto UI has a policy of its own.
            more = {"content-security-policy": PAGE_POLICY, "cache-control": "no-store", **_ALWAYS}
            message["headers"] = [*message["headers"], *_pairs(more, present)]
        await send(message)

    return sending


def _pairs(headers: dict[str, str], present: Iterable[bytes] = ()) -> list[tuple[bytes, bytes]]:
    known = set(present)
    return [(name.encode(), value.encode()) for name, value in headers.items() if name.encode() not in known]


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["path"].startswith("/api/"):
        body = json.dumps({"error": {"what": why, "where": "", "lost": "", "hint": ""}})
        await _answer(scope, send, status, "application/json", body)
    else:
        await _answer(scope, send, status, "text/plain; charset=utf-8", f"{status}: {why}\n")


async def _answer(
    scope: Scope, send: Send, status: int, kind: str, text: str, more: dict[str, str] | None = None
) -> None:
    body = text.encode()
    policy = PAGE_POLICY.replace("script-src 'self'", "script-src 'none'")
    headers = {
        "content-type": kind, "content-length": str(len(body)), "cache-control": "no-store",
        "content-security-policy": policy, **_ALWAYS, **(more or {}),
    }  # fmt: skip
    if status >= 400:
        # The rest of the request body is not read.
        headers["connection"] = "close"
    await send({"type": "http.response.start", "status": status, "headers": _pairs(headers)})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
