"""The server on the loopback address: one socket, with time limits for each connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes.base.errors import InputError
from hermes.web import messages
from hermes.web.access_guard import LONGEST_HEAD

HEAD_SECONDS = 10.0
"""Seconds for the complete head of a request to arrive."""
ANSWER_SECONDS = 900.0
"""Seconds for an answer to be made and read."""
_AT_ONCE = 64
_WAITING = 128
DEFAULT_PORT = 8655


class PatientServer(H11Protocol):
    """An HTTP/1.1 connection with time limits: uvicorn itself waits for ever for the rest of a head, and for a client
    that does not read."""

    head_seconds = HEAD_SECONDS
    answer_seconds = ANSWER_SECONDS
    _timer: asyncio.TimerHandle | None = None
    _waits_for_head = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request on a new connection."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit of a closed connection."""
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in bytes of a request, and check whether its head is complete."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the head of the next request, after an answer."""
        super().on_response_complete()
        self._watch()

    def shutdown(self) -> None:
        """Abort the answer under way at the end of the server, since some answers have no end."""
        super().shutdown()
        if self.cycle and not self.cycle.response_complete:
            self.transport.close()

    def _watch(self) -> None:
        waits = self.cycle is None or self.cycle.response_complete
        if self._timer and waits and self._waits_for_head:
            # Single bytes do not extend the time limit.
            return
        if self._timer:
            self._timer.cancel()
        self._waits_for_head = waits
        seconds = self.head_seconds if waits else self.answer_seconds
        self._timer = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.abort() if not self._waits_for_head else self.transport.close()


def bound(port: int | None) -> socket.socket:
    """A socket on loopback: at `port`; by default at the usual port, or at any free port if that is taken.

    Raises `InputError` if a requested port is taken.
    """
    for candidate in (DEFAULT_PORT, 0) if port is None else (port,):
        # With the protocol named as TCP, asyncio sends each write immediately; else the body of each answer waits 40 ms
        # for the acknowledgement of its head.
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(("127.0.0.1", candidate))
            # From here on nobody else gets the port, and an early client waits.
            made.listen(_WAITING)
        except OSError as taken:
            made.close()
            failed = taken
            continue
        return made
    raise InputError(
        messages.no_port(why=str(failed.strerror)), where=f"127.0.0.1:{port}", hint=messages.DO_OTHER_PORT
    ) from failed


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the command, which ends at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


def server(app: ASGIApp, protocol: type[PatientServer] = PatientServer) -> uvicorn.Server:
    """The server, to be run on the socket of `bound`. The server keeps no log: no client may write to the terminal."""
    return _Server(
        uvicorn.Config(
            app, http=protocol, ws="none", loop="asyncio", lifespan="off", log_config=None, log_level="error",
            access_log=False,
            server_header=False, date_header=False, h11_max_incomplete_event_size=LONGEST_HEAD,
            limit_concurrency=_AT_ONCE, timeout_keep_alive=60, timeout_graceful_shutdown=1, proxy_headers=False,
        )
    )  # fmt: skip
