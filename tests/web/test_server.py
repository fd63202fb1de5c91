"""The server's patience, its port, and that it listens on loopback alone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import InputError
from hermes.store.cache import Cache
from hermes.web.server import PatientServer, bound

pytestmark = pytest.mark.live


class Hasty(PatientServer):
    head_seconds = 0.4


def spoken(port: int, pieces: list[bytes], pause: float) -> tuple[bytes, float]:
    """What comes back for a request sent in pieces, and after how long the connection ended."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as own:
        try:
            for piece in pieces:
                own.sendall(piece)
                time.sleep(pause)
            answer = own.recv(65_536)
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
    return answer, time.monotonic() - began


@pytest.fixture(scope="module")
def hasty(job: Path, cache: Cache, serve: Callable[..., Any]) -> Any:
    with serve([job], cache, Hasty) as running:
        yield running


def test_who_says_nothing_is_not_waited_for(hasty: Any) -> None:
    answer, seconds = spoken(hasty.port, [], 0)
    assert answer == b""
    assert 0.3 < seconds < 5


def test_single_bytes_buy_no_time(hasty: Any) -> None:
    head = b"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-More: 1\r\n" * 200
    answer, seconds = spoken(hasty.port, [head[at : at + 1] for at in range(len(head))], 0.01)
    assert b"200" not in answer
    assert seconds < 6


def test_a_kept_connection_that_stalls_in_its_next_head_is_ended(hasty: Any) -> None:
    whole = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{hasty.port}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=10) as own:
        own.sendall(whole)
        assert b"401" in own.recv(65_536)


def test_slow_clients_do_not_hold_up_the_others(hasty: Any) -> None:
    slow = [socket.create_connection(("127.0.0.1", hasty.port)) for _ in range(30)]
    for own in slow:
        own.sendall(b"GET / HT")
    answers: list[bytes] = []
    request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{hasty.port}\r\nConnection: close\r\n\r\n".encode()
    quick = threading.Thread(target=lambda: answers.append(spoken(hasty.port, [request], 0)[0]))
    quick.start()
    quick.join(5)
    for own in slow:
        own.close()
    assert b"401" in answers[0]


@pytest.mark.smoke
def test_it_listens_on_loopback_alone(hasty: Any) -> None:
    with bound(None) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(hasty: Any) -> None:
    with pytest.raises(InputError, match="port"):
        bound(hasty.port)


def test_without_a_wish_another_free_port_is_taken(hasty: Any) -> None:
    with bound(None) as first, bound(None) as second:
        first.listen()
        assert first.getsockname()[1] != second.getsockname()[1]


def test_answers_are_sent_without_waiting_for_an_acknowledgement(
    job: Path, cache: Cache, serve: Callable[..., Any]
) -> None:
    found: list[int] = []

    class Noting(PatientServer):
        def connection_made(self, transport: Any) -> None:
            own = transport.get_extra_info("socket")
            found.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    with serve([job], cache, Noting) as running:
        spoken(running.port, [f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n".encode()], 0)
    assert found == [1]


def test_an_address_that_no_page_has_is_answered_in_words_and_not_as_data(client: Any) -> None:
    answer = client.get("/nothing")
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert client.get("/api/nothing").headers["content-type"] == "application/json"
