"""A small API server of Kubernetes, sufficient for the real kubectl to list pods and to run commands in one.

The protocol follows the documentation of Kubernetes: a list of pods as JSON, and `exec` by a WebSocket. Each message of
the WebSocket begins with the number of a stream: 1 and 2 are the outputs, 3 is the exit status.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlparse

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL = "v5.channel.k8s.io"


@dataclass(slots=True)
class Cluster:
    """The pods by name: the environment of their programs; and phases of pods that do not run."""

    pods: dict[str, Mapping[str, str]]
    waiting: dict[str, str] = field(default_factory=dict)
    selectors: list[str] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)

    def pod(self, name: str) -> dict[str, Any]:
        return {
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
            "status": {"phase": self.waiting.get(name, "Running")},
        }  # fmt: skip

    def document(self, path: str) -> dict[str, Any] | None:
        """The answer to a GET request."""
        verbs = ["get", "list", "create"]
        resources = [
            {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": verbs},
            {"name": "pods/exec", "singularName": "", "namespaced": True, "kind": "PodExecOptions", "verbs": verbs},
        ]
        pods = "/api/v1/namespaces/default/pods"
        fixed: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources},
            pods: {"kind": "PodList", "apiVersion": "v1", "metadata": {},
                   "items": [self.pod(name) for name in (*self.pods, *self.waiting)]},
        }  # fmt: skip
        named = path.removeprefix(f"{pods}/")
        return fixed.get(path) or (self.pod(named) if named in self.pods else None)


def _given(stream: IO[bytes]) -> Iterator[bytes]:
    """The bytes on stream 0, until the message 255 that closes it; clients mask what they send (RFC 6455)."""
    while True:
        first, second = stream.read(2)
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        mask = stream.read(4)
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(stream.read(size)))
        if first & 0xF == 8 or text[:1] == b"\xff":
            return
        if text[:1] == b"\x00":
            yield text[1:]


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            url = urlparse(self.path)
            query = parse_qs(url.query)
            cluster.selectors += query.get("labelSelector", [])
            if url.path.endswith("/exec"):
                self._exec(url.path.split("/")[-2], query["command"], reads=query.get("stdin") == ["true"])
                return
            found = cluster.document(url.path)
            body = json.dumps(found or {"kind": "Status", "status": "Failure", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _exec(self, pod: str, words: list[str], *, reads: bool) -> None:
            key = self.headers["Sec-WebSocket-Key"] + _MAGIC
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Protocol", _PROTOCOL)
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accept)
            self.end_headers()
            cluster.words.append(words)
            environment = {**os.environ, **cluster.pods[pod]}
            given = b"".join(_given(self.rfile)) if reads else b""
            done = subprocess.run(words, input=given, capture_output=True, check=False, env=environment)
            for stream, text in ((1, done.stdout), (2, done.stderr)):
                for at in range(0, len(text), 30_000):
                    self._message(stream, text[at : at + 30_000])
            status: dict[str, Any] = {"metadata": {}, "status": "Success"}
            if done.returncode:
                cause = {"reason": "ExitCode", "message": str(done.returncode)}
                status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                          "message": "command failed", "details": {"causes": [cause]}}  # fmt: skip
            self._message(3, json.dumps(status).encode())
            self.wfile.write(b"\x88\x02\x03\xe8")
            self.close_connection = True

        def _message(self, stream: int, text: bytes) -> None:
            size = len(text) + 1
            length = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)
            self.wfile.write(b"\x82" + length + bytes([stream]) + text)

    return Handler


@contextmanager
def served(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Serve the cluster on loopback; returns a configuration of kubectl for it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    config = folder / "kubeconfig"
    named = {"name": "t", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "clusters": [named], "users": [{"name": "t", "user": {}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}], "current-context": "t",
    }))  # fmt: skip
    try:
        yield config
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
