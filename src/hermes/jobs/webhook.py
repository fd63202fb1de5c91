"""Posts alarms to a web address as JSON: in a thread of its own, bounded, and dropped rather than waited for."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import ssl
import threading
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.jobs.capture_messages import (
    ADDRESS_IN_THE_CLEAR,
    GIVE_HTTPS,
    GIVE_HTTPS_OR_PLAIN,
    not_an_address,
    webhook_failed,
)

KINDS = frozenset({"alarm", "recovered", "straggler", "caught up", "no progress", "progress", "finding", "numbers"})
"""The events of a job that are posted."""
_WAITING = 64
_TIMEOUT_S = 5.0
_TRIES = 2


class Webhook:
    """A poster of events to one address, one event after the other. Events beyond its queue are dropped and counted."""

    def __init__(self, address: str, *, plain: bool, say: Callable[[Message], None]) -> None:
        """`plain` allows http to other hosts than this one. Raises `InputError` for an invalid address."""
        self._scheme, self._host, self._port, self._path = _parsed(address, plain=plain)
        self._say = say
        self._told: set[Message] = set()
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self.sent = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="hermes-webhook", daemon=True)
        self._thread.start()

    def put(self, job: str, event: Mapping[str, object]) -> None:
        """Queue an event for posting; never waits."""
        if event.get("kind") not in KINDS:
            return
        body = json.dumps({"schema": "hermes.event/1", "job": job, **event}).encode()[:65_536]
        try:
            self._queue.put_nowait(body)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        while (body := self._queue.get()) is not None:
            for attempt in range(_TRIES):
                try:
                    self._post(body)
                    self.sent += 1
                    break
                except (OSError, http.client.HTTPException, ValueError) as failed:
                    if attempt == _TRIES - 1:
                        self.dropped += 1
                        self._once(webhook_failed(why=f"{type(failed).__name__}: {str(failed)[:100]}"))

    def _post(self, body: bytes) -> None:
        """Send one request; redirects are not followed. Raises the connection's error, `OSError` for a refusal."""
        if self._scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=_TIMEOUT_S, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read(1024)
            if not 200 <= answer.status < 300:
                raise OSError(f"HTTP {answer.status}")

    def _once(self, said: Message) -> None:
        if said not in self._told and len(self._told) < 16:
            self._told.add(said)
            self._say(said)

    def close(self, patience_s: float = 5.0) -> None:
        """Send the waiting events, for `patience_s` seconds at most."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=patience_s)
        self._thread.join(patience_s)


def _parsed(address: str, *, plain: bool) -> tuple[str, str, int | None, str]:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as broken:
        raise InputError(not_an_address(address=address[:100]), hint=GIVE_HTTPS) from broken
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise InputError(not_an_address(address=address[:100]), hint=GIVE_HTTPS)
    if parts.scheme == "http" and not plain and not _loopback(host):
        raise InputError(ADDRESS_IN_THE_CLEAR, where=host, hint=GIVE_HTTPS_OR_PLAIN)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, host, port, path


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
