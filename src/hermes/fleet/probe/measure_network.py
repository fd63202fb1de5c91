"""Runs one host's part of a probe: answers its partners, and calls them over plain UDP and TCP."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

PORT = 8657
_PROBES = 100
_GAP_S = 0.01
_WAIT_S = 1.0
_TAG = 16
_HEAD = struct.Struct("<QQ")
"""Number of the probe, or the sender on a connection; and the caller's clock."""
_COUNT = struct.Struct("<Q")
_FROM_CALLER, _TO_CALLER = 0, 1
_SIZE = 200
_SEND_S = 1.0
_BLOCK = 1 << 18
_MOST_BYTES = 4 << 30
_AT_ONCE = 32
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The result of one call. Times are round trips in nanoseconds; None if no answer came back.

    `bytes_per_s` is TCP's throughput in the slower of both directions.
    """

    caller: str
    answerer: str
    sent: int
    lost: int
    rtt_ns: int | None
    jitter_ns: int | None
    bytes_per_s: float | None


def sealed(key: bytes, body: bytes) -> bytes:
    """The body with a seal that only a holder of the key can make."""
    return body + hmac.new(key, body, hashlib.sha256).digest()[:_TAG]


def body_of_packet(key: bytes, packet: bytes) -> bytes | None:
    """The body of a sealed packet; None for a packet from somebody without the key."""
    body = packet[:-_TAG]
    return body if len(packet) > _TAG and hmac.compare_digest(sealed(key, body), packet) else None


class Answerer:
    """A server that returns sealed datagrams unchanged, and sends to, or reads from, a connection with a seal."""

    def __init__(self, address: str, key: bytes, port: int = PORT) -> None:
        """Raises `OSError` for an address that cannot be used."""
        self._key = key
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._udp = socket.socket(family, socket.SOCK_DGRAM)
        self._tcp = socket.socket(family, socket.SOCK_STREAM)
        self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._udp.bind((address, port))
            self.port = int(self._udp.getsockname()[1])
            self._tcp.bind((address, self.port))
            self._tcp.listen(_AT_ONCE)
        except OSError:
            self._udp.close()
            self._tcp.close()
            raise
        self._ended = threading.Event()
        self._busy = threading.BoundedSemaphore(_AT_ONCE)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            ready, _, _ = select.select([self._udp, self._tcp], [], [], 0.1)
            with contextlib.suppress(OSError):
                if self._udp in ready:
                    packet, sender = self._udp.recvfrom(2048)
                    # The answer is as long as the datagram: nobody can use the server to amplify traffic.
                    if body_of_packet(self._key, packet) is not None:
                        self._udp.sendto(packet, sender)
                if self._tcp in ready:
                    connection, _ = self._tcp.accept()
                    if self._busy.acquire(blocking=False):
                        threading.Thread(target=self._transfer, args=(connection,), daemon=True).start()
                    else:
                        connection.close()

    def _transfer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(_PATIENCE_S)
            head = b""
            while len(head) < _HEAD.size + _TAG:
                more = connection.recv(_HEAD.size + _TAG - len(head))
                if not more:
                    break
                head += more
            body = body_of_packet(self._key, head)
            if body is not None and _HEAD.unpack_from(body)[0] == _TO_CALLER:
                _send(connection)
            elif body is not None:
                connection.sendall(_COUNT.pack(_count(connection)))
        self._busy.release()

    def close(self) -> None:
        """Stop answering probe calls, and close the sockets."""
        self._ended.set()
        self._thread.join()
        self._udp.close()
        self._tcp.close()


def call(caller: str, answerer: str, address: str, key: bytes, port: int = PORT, *, probes: int = _PROBES) -> Call:
    """Measure the round trip and the throughput to a partner."""
    took = _datagrams(address, key, port, probes)
    steps = [abs(after - before) for before, after in itertools.pairwise(took)]
    return Call(
        caller=caller, answerer=answerer, sent=probes, lost=probes - len(took),
        rtt_ns=int(median(took)) if took else None, jitter_ns=int(fmean(steps)) if steps else None,
        bytes_per_s=_throughput(address, key, port) if took else None,
    )  # fmt: skip


def _datagrams(address: str, key: bytes, port: int, probes: int) -> list[int]:
    """The round trips of the answered datagrams, in the order in which they were sent."""
    found: dict[int, int] = {}
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as own, contextlib.suppress(OSError):
        own.connect((address, port))
        for number in range(probes):
            with contextlib.suppress(OSError):
                own.send(sealed(key, _HEAD.pack(number, time.monotonic_ns()).ljust(_SIZE, b"\0")))
            _take(own, key, probes, found, _GAP_S)
        _take(own, key, probes, found, _WAIT_S)
    return [found[number] for number in sorted(found)]


def _take(own: socket.socket, key: bytes, probes: int, found: dict[int, int], seconds: float) -> None:
    """Collect answers for `seconds`, or until all have arrived."""
    end = time.monotonic() + seconds
    while len(found) < probes and (left := end - time.monotonic()) > 0:
        if not select.select([own], [], [], left)[0]:
            return
        with contextlib.suppress(OSError):
            body = body_of_packet(key, own.recv(2048))
            if body is not None and len(body) >= _HEAD.size:
                number, sent_ns = _HEAD.unpack_from(body)
                took = time.monotonic_ns() - sent_ns
                if number < probes and took >= 0:
                    found.setdefault(number, took)


def _send(connection: socket.socket) -> float:
    """Send for a fixed time, then send the end mark; returns the seconds that took."""
    block = bytes(_BLOCK)
    begin = time.monotonic()
    while time.monotonic() - begin < _SEND_S:
        connection.sendall(block)
    connection.shutdown(socket.SHUT_WR)
    return time.monotonic() - begin


def _count(connection: socket.socket) -> int:
    """The bytes received before the other side's end mark."""
    total = 0
    while total < _MOST_BYTES and (more := connection.recv(_BLOCK)):
        total += len(more)
    return total


def _throughput(address: str, key: bytes, port: int) -> float | None:
    """Bytes a second of the slower of both directions; None if the connection fails or breaks."""
    try:
        with _connected(address, key, port, _FROM_CALLER) as connection:
            begin = time.monotonic()
            _send(connection)
            said = connection.recv(_COUNT.size, socket.MSG_WAITALL)
            there = _COUNT.unpack(said)[0] / (time.monotonic() - begin)
        with _connected(address, key, port, _TO_CALLER) as connection:
            begin = time.monotonic()
            back = _count(connection) / (time.monotonic() - begin)
    except (OSError, struct.error):
        return None
    return float(min(there, back))


def _connected(address: str, key: bytes, port: int, direction: int) -> socket.socket:
    connection = socket.create_connection((address, port), _PATIENCE_S)
    connection.sendall(sealed(key, _HEAD.pack(direction, time.monotonic_ns())))
    return connection


def calls(me: str, pairs: Sequence[tuple[str, str]], addresses: dict[str, str], key: bytes, port: int) -> list[Call]:
    """All calls of this host, one after the other."""
    return [call(me, other, addresses[other], key, port) for caller, other in pairs if caller == me]
