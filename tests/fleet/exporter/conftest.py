"""A job to observe, certificates of a test's own authority, and a client of the exporter."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from tests.jobs.live_job import LiveJob, live_job

from hermes.fleet.exporter.address import Tls, read_address
from hermes.fleet.exporter.exporter import Exporter
from hermes.fleet.exporter.serve import Server, served

__all__ = ["live_job"]


@pytest.fixture
def exporter(live_job: LiveJob) -> Iterator[Exporter]:
    """An exporter of the job that the test itself is; no vendor's tool is run."""
    made = Exporter(
        live_job.environment, root=Path("/"), users=(), peak_flops=None, commands=False, say=live_job.said.append,
        tool=lambda _: "",
    )  # fmt: skip
    yield made
    made.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Certificates, keys and authorities as files, and TLS contexts of clients."""

    server: tuple[Path, Path, Path]
    known: ssl.SSLContext
    stranger: ssl.SSLContext
    nobody: ssl.SSLContext


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A server's files; a client of its own authority, a client of another authority, and a client without a
    certificate."""
    folder = tmp_path_factory.mktemp("tls")
    ours, theirs = trustme.CA(), trustme.CA()
    host = ours.issue_cert("127.0.0.1", "localhost")
    host.private_key_pem.write_to_path(folder / "host.key")
    for place, blob in enumerate(host.cert_chain_pems):
        blob.write_to_path(folder / "host.crt", append=bool(place))
    ours.cert_pem.write_to_path(folder / "ca.crt")

    def client(authority: trustme.CA | None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        ours.configure_trust(context)
        if authority is not None:
            authority.issue_cert("prometheus").configure_cert(context)
        return context

    return Files(server=(folder / "host.crt", folder / "host.key", folder / "ca.crt"), known=client(ours),
                 stranger=client(theirs), nobody=client(None))  # fmt: skip


Serve = Callable[..., Server]


@pytest.fixture
def serve(exporter: Exporter) -> Iterator[Serve]:
    """Serves the job's metrics at a free port of loopback."""
    servers = []

    def begin(encrypted: Tls | None = None) -> Server:
        server = Server(read_address("127.0.0.1:0"), exporter, encrypted)
        servers.append((server, served(server)))
        return server

    yield begin
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(
    server: Server, path: str = "/metrics", context: ssl.SSLContext | None = None, method: str = "GET", **headers: str
) -> tuple[int, str]:
    """Status and body of the exporter's answer."""
    kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    more = {} if context is None else {"context": context}
    connection = kind("127.0.0.1", server.port, timeout=20, **more)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()
