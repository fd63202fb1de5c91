"""Who may ask the exporter, for what, how long and how many at once."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import time
from pathlib import Path

import pytest
from tests.fleet.exporter.conftest import Files, Serve, asked  # type: ignore[import-not-found]
from tests.patience import until

from hermes.base.errors import InputError
from hermes.fleet.exporter import serve as module
from hermes.fleet.exporter.address import Tls, read_address, tls

pytestmark = pytest.mark.live


def test_metrics_have_one_path_and_one_method(serve: Serve) -> None:
    server = serve()
    assert asked(server)[0] == 200
    paths = ("/", "/metrics/", "/metrics?name[]=up", "/../metrics", "/favicon.ico")
    assert [asked(server, path)[0] for path in paths] == [404] * len(paths)
    assert [asked(server, method=method)[0] for method in ("POST", "HEAD", "OPTIONS", "DELETE")] == [501] * 4


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8656", "127.0.0.1.evil.example", "", "[::2]:1"])
def test_a_browser_that_was_led_here_by_another_name_gets_nothing(serve: Serve, host: str) -> None:
    assert asked(serve(), Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8656", "127.0.0.1:1", "[::1]:5"])
def test_the_names_of_this_host_are_answered(serve: Serve, host: str) -> None:
    assert asked(serve(), Host=host)[0] == 200


def test_both_formats_are_served_as_they_are_asked_for(serve: Serve) -> None:
    server = serve()
    assert asked(server)[1].endswith("\n")
    assert asked(server, Accept="application/openmetrics-text; version=1.0.0")[1].endswith("# EOF\n")


@pytest.mark.parametrize(
    "text", ["", "8656", "host:8656", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "::1", "a\x1b:1"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:8656", "10.0.0.5:0", "[::]:8656"])
def test_beyond_this_host_nobody_is_served_without_tls(text: str, certificates: Files) -> None:
    certificate, key, authority = certificates.server
    with pytest.raises(InputError):
        tls(read_address(text), None, None, None)
    with pytest.raises(InputError):
        tls(read_address(text), certificate, key, None)
    assert tls(read_address(text), certificate, key, authority) is not None
    assert tls(read_address("127.0.0.1:0"), None, None, None) is None


def test_files_that_are_no_certificates_are_refused(certificates: Files, tmp_path: Path) -> None:
    certificate, key, authority = certificates.server
    (tmp_path / "junk").write_text("junk")
    for files in ((tmp_path / "junk", key, authority), (certificate, tmp_path / "absent", authority),
                  (certificate, key, tmp_path / "junk")):  # fmt: skip
        with pytest.raises(InputError):
            Tls(*files)


@pytest.mark.smoke
def test_with_tls_only_clients_of_the_authority_are_answered(serve: Serve, certificates: Files) -> None:
    server = serve(Tls(*certificates.server))
    assert asked(server, context=certificates.known)[0] == 200
    for context in (certificates.stranger, certificates.nobody, None):
        with pytest.raises((ssl.SSLError, OSError, ValueError)):
            assert asked(server, context=context)[0] == 200
    # Whoever failed has cost nobody else anything.
    assert asked(server, context=certificates.known)[0] == 200


def test_a_certificate_that_is_replaced_is_read_anew(serve: Serve, certificates: Files, tmp_path: Path) -> None:
    files = [shutil.copy(path, tmp_path) for path in certificates.server]
    used = Tls(*map(Path, files))
    first = used.context()
    assert used.context() is first
    Path(files[0]).write_text("half of it")
    assert used.context() is first
    Path(files[0]).write_bytes(certificates.server[0].read_bytes())
    assert used.context() is not first


def stuck(server: module.Server, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(sent)
    return connection


def ended(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return not connection.recv(1 << 16)
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_slow_clients_keep_nobody_waiting_and_are_ended(
    serve: Serve, certificates: Files, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 1.5)
    server = serve(Tls(*certificates.server) if encrypted else None)
    slow = [stuck(server, b"\x16\x03" if encrypted else b"GET /metr") for _ in range(4)]
    assert asked(server, context=certificates.known if encrypted else None)[0] == 200
    begin = time.monotonic()
    while not all(map(ended, slow)):
        # Single bytes buy no time.
        for one in slow:
            try:
                one.sendall(b"i")
            except OSError:
                continue
        assert time.monotonic() - begin < 60
    for one in slow:
        one.close()


def test_only_so_many_are_served_at_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    server = serve()
    tried = [stuck(server) for _ in range(3)]

    def refused() -> bool:
        tried.append(stuck(server))
        return ended(tried[-1])

    until(refused)
    for one in tried:
        one.close()
    assert until(lambda: _answers(server))


def _answers(server: module.Server) -> bool:
    try:
        return bool(asked(server)[0] == 200)
    except OSError:
        return False


@pytest.mark.parametrize(
    "sent", [b"\0" * 100_000, b"GET " + b"/" * 100_000, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 999]
)
def test_junk_is_answered_with_an_error_or_not_at_all(
    serve: Serve, capfd: pytest.CaptureFixture[str], sent: bytes
) -> None:
    server = serve()
    connection = stuck(server)
    with contextlib.suppress(OSError):
        connection.sendall(sent + b"\r\n\r\n")
    connection.settimeout(20)
    try:
        answer = connection.recv(100)
    except OSError:
        answer = b""
    connection.close()
    assert b" 200 " not in answer
    assert asked(server)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken_is_told(serve: Serve) -> None:
    with pytest.raises(InputError):
        module.Server(read_address(f"127.0.0.1:{serve().port}"), None, None)  # type: ignore[arg-type]
