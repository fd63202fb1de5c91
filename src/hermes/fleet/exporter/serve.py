"""Serves `/metrics` over HTTP: a few connections at once, each with a time limit."""

from __future__ import annotations

import contextlib
import gzip
import socket
import socketserver
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import choose_encoder, gzip_accepted

from hermes.base.errors import InputError
from hermes.fleet.exporter import messages
from hermes.fleet.exporter.address import Address, Tls

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

PATH = "/metrics"
AT_ONCE = 16
"""Most open connections; further connections are closed immediately."""
PATIENCE_S = 10.0
"""Time limit in s of a connection, for its handshake, its request and the answer."""
_WAITING = 32


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server that runs until `shutdown`. A connection over its time limit is closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = _WAITING

    def __init__(self, listens: Address, collector: Collector, encrypted: Tls | None) -> None:
        """Raises `InputError` for an address that cannot be used."""
        self.collector, self.encrypted = collector, encrypted
        self.names = None if encrypted else listens.names
        self._open: dict[socket.socket, tuple[float, socket.socket]] = {}
        self._counting = threading.Lock()
        super().__init__((listens.host, listens.port), _Handler, bind_and_activate=False)
        family = socket.AF_INET6 if ":" in listens.host else socket.AF_INET
        self.socket.close()
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((listens.host, listens.port))
            self.socket.listen(_WAITING)
        except OSError as refused:
            self.socket.close()
            where = f"{listens.host}:{listens.port}"
            why = messages.not_listening(why=refused.strerror or "")
            raise InputError(why, where=where, hint=messages.DO_OTHER_PORT) from refused
        self.server_address = self.socket.getsockname()

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self.socket.getsockname()[1])

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether the number of open connections allows one more."""
        with self._counting:
            if len(self._open) >= AT_ONCE:
                return False
            self._open[request] = time.monotonic(), request
        return True

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection in a thread of its own, including the TLS handshake, which a client may never end."""
        request.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError, ValueError):
            if self.encrypted is None:
                super().finish_request(request, client_address)
                return
            # The TLS socket takes the descriptor over: from here on, closing it ends the connection.
            wrapped = self.encrypted.context().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            with self._counting:
                self._open[request] = self._open[request][0], wrapped
            with wrapped:
                wrapped.do_handshake()
                super().finish_request(wrapped, client_address)
                wrapped.unwrap()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and free its place for another."""
        with self._counting:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that disconnects is normal, and no client may write to the terminal."""

    def service_actions(self) -> None:
        """Called twice a second: close connections over their time limit, even if they still send single bytes."""
        with self._counting:
            late = [used for begin, used in self._open.values() if time.monotonic() - begin > PATIENCE_S]
        for used in late:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(used, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """The handler of one request. HTTP/1.0: a connection is one request and one answer."""

    server: Server
    timeout = PATIENCE_S
    server_version, sys_version = "hermes", ""

    def do_GET(self) -> None:
        """Send the metrics, in the format that the client asks for."""
        if not self._named_right():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.path != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._answer()

    def _named_right(self) -> bool:
        """Whether the request names this host: on loopback, another site's name may have led a browser here."""
        if self.server.names is None:
            return True
        host = self.headers.get("Host", "localhost")
        return host.rpartition(":")[0] in self.server.names or host in self.server.names

    def _answer(self) -> None:
        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.collector)
        packed = gzip_accepted(self.headers.get("Accept-Encoding", ""))
        if packed:
            body = gzip.compress(body, 1)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: no client may write to the terminal."""


def served(server: Server) -> threading.Thread:
    """Run the server in a thread of its own, and return the thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.5,), name="hermes-exporter", daemon=True)
    thread.start()
    return thread
