"""The interface of a transport, which runs a command on a host; asks many hosts with bounded time and memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from hermes.base.message import Word

MOST_BYTES = 4 << 20
"""The largest answer of a host, in bytes; a longer one counts as no answer."""
MOST_SAID = 4_096
"""Bytes of a host's standard error that are kept."""


class Silence(Word):
    """The reasons why a host has no answer."""

    UNREACHABLE = "unreachable"
    STRANGER = "stranger"
    LATE = "late"
    TOO_MUCH = "too much"
    FAILED = "failed"
    GARBLED = "garbled"


class SilentError(Exception):
    """A transport could not run the command. `why` is the text of the program or library that it uses."""

    def __init__(self, silence: Silence, why: str) -> None:
        super().__init__(why)
        self.silence, self.why = silence, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of the command on one host: exit code and both outputs, or why there are none.

    All text comes from the host and is untrusted. `seconds` is how long the answer took, up to `at_ns` by this host's
    clock; `job` is the job of the order.
    """

    host: str
    job: str = ""
    code: int | None = None
    stdout: bytes = b""
    stderr: str = ""
    silence: Silence | None = None
    why: str = ""
    seconds: float = 0.0
    at_ns: int = 0


class Transport(Protocol):
    """The interface to a set of hosts, reached as one account. A word of a command reaches the program unchanged."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts, as their owner wrote them."""

    @property
    def absent(self) -> Mapping[str, str]:
        """Hosts of the job that cannot be reached, each with the scheduler's reason."""

    async def run(
        self, host: str, words: Sequence[str], most_bytes: int, given: bytes = b""
    ) -> tuple[int, bytes, bytes]:  # fmt: skip
        """Run a program on a host; returns exit code, standard output and the begin of standard error.

        `given` is the program's input. Raises `SilentError`; a late call is cancelled.
        """

    async def close(self) -> None:
        """Close the connections to all hosts."""


async def each(
    transport: Transport, orders: Mapping[str, Sequence[str]], *, within_s: float, most_bytes: int = MOST_BYTES
) -> AsyncIterator[Answer]:
    """The answers of all hosts in the order in which they arrive, the last at most `within_s` seconds from now."""
    whole = {(host, ""): words for host, words in orders.items()}
    async for answer in each_job(transport, whole, within_s=within_s, most_bytes=most_bytes):
        yield answer


async def each_job(
    transport: Transport, orders: Mapping[tuple[str, str], Sequence[str]], *, within_s: float,
    most_bytes: int = MOST_BYTES, given: Mapping[tuple[str, str], bytes] | None = None,
) -> AsyncIterator[Answer]:  # fmt: skip
    """The answers of all hosts, if a host has an order for each of its jobs: a launcher may start one job for each
    rank.

    `given` is the input of the programs. Answers are in the order in which they arrive.
    """
    end = time.monotonic() + within_s
    texts = given or {}
    tasks = [asyncio.create_task(_answer(transport, host, job, words, end, most_bytes, texts.get((host, job), b"")))
             for (host, job), words in orders.items()]  # fmt: skip
    try:
        for one in asyncio.as_completed(tasks):
            yield await one
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(
    transport: Transport, host: str, job: str, words: Sequence[str], end: float, most_bytes: int, given: bytes
) -> Answer:  # fmt: skip
    begin = time.monotonic()

    def silent(silence: Silence, why: str) -> Answer:
        return Answer(host=host, job=job, silence=silence, why=why, seconds=time.monotonic() - begin)

    try:
        code, out, said = await asyncio.wait_for(transport.run(host, words, most_bytes, given), max(end - begin, 0.001))
    except asyncio.TimeoutError:
        return silent(Silence.LATE, "")
    except SilentError as one:
        return silent(one.silence, one.why)
    except OSError as refused:
        return silent(Silence.UNREACHABLE, refused.strerror or type(refused).__name__)
    text = said[:MOST_SAID].decode("utf-8", "replace")
    return Answer(host=host, job=job, code=code, stdout=out, stderr=text, seconds=time.monotonic() - begin,
                  at_ns=time.time_ns())  # fmt: skip


class Reader(Protocol):
    """A stream of bytes in asyncio's and asyncssh's form."""

    async def read(self, n: int = -1) -> bytes:
        """At most `n` bytes; empty at the end of the stream."""


async def bounded(stream: Reader, most: int) -> bytes:
    """All bytes of a stream. Raises `SilentError` beyond `most` bytes, because a host could fill this host's memory."""
    parts: list[bytes] = []
    left = most
    while part := await stream.read(65_536):
        left -= len(part)
        if left < 0:
            raise SilentError(Silence.TOO_MUCH, "")
        parts.append(part)
    return b"".join(parts)


async def beginning(stream: Reader, most: int = MOST_SAID) -> bytes:
    """The first bytes of a stream. The rest is read and dropped, since its writer would wait otherwise."""
    kept = b""
    while part := await stream.read(65_536):
        kept += part[: most - len(kept)]
    return kept


class Writer(Protocol):
    """An output stream in asyncio's and asyncssh's form."""

    def write(self, data: bytes) -> None:
        """Write bytes to the stream."""

    async def drain(self) -> None:
        """Wait until the written bytes have been taken."""

    def write_eof(self) -> None:
        """End the stream: no more bytes follow."""


async def both(
    stdout: Reader, stderr: Reader, most_bytes: int, stdin: Writer | None = None, given: bytes = b""
) -> tuple[bytes, bytes]:  # fmt: skip
    """Both outputs of a process, read side by side while `given` is written to its input: an unread pipe would block
    it."""
    beside = [asyncio.create_task(_fed(stdin, given))] if stdin is not None else []
    rest = asyncio.create_task(beginning(stderr))
    try:
        out = await bounded(stdout, most_bytes)
        return out, await rest
    finally:
        for task in (rest, *beside):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _fed(stdin: Writer, given: bytes) -> None:
    # A program that ends before it has read its whole input reports that itself.
    with suppress(OSError):
        stdin.write(given)
        await stdin.drain()
        stdin.write_eof()
