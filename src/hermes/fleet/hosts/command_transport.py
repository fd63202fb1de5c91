"""The transport that starts a program for each host, such as `srun` or `kubectl`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hermes.base.processes import begin_beside
from hermes.fleet.hosts.transport import Silence, SilentError, both

AT_ONCE = 32
"""Most processes at a time: each client loads the scheduler, and takes tens of megabytes on this host."""


@dataclass(slots=True, kw_only=True)
class Commands:
    """A transport by commands. `argv` returns the command that runs words on a host, `reads` the one that also passes
    input."""

    hosts: tuple[str, ...]
    argv: Callable[[str, Sequence[str]], Sequence[str]]
    absent: Mapping[str, str] = field(default_factory=dict)
    at_once: int = AT_ONCE
    reads: Callable[[str, Sequence[str]], Sequence[str]] | None = None
    _room: asyncio.Semaphore | None = None

    async def run(
        self, host: str, words: Sequence[str], most_bytes: int, given: bytes = b""
    ) -> tuple[int, bytes, bytes]:  # fmt: skip
        """Run words on a host, as `Transport.run`. A command over its time limit is killed, with all its child
        processes."""
        if self._room is None:
            self._room = asyncio.Semaphore(self.at_once)
        async with self._room:
            argv = (self.reads or self.argv)(host, words) if given else self.argv(host, words)
            return await ran(argv, most_bytes, given)

    async def close(self) -> None:
        """Close nothing: the transport keeps nothing open."""


async def ran(argv: Sequence[str], most_bytes: int, given: bytes = b"") -> tuple[int, bytes, bytes]:
    """Exit code and outputs of a program. Raises `SilentError`; if the call is cancelled, the program is ended too."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        child = await begin_beside(argv, stdin=pipe if given else nothing, stdout=pipe, stderr=pipe)
    except OSError as absent:
        raise SilentError(Silence.FAILED, f"{argv[0]}: {absent.strerror}") from absent
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        out, said = await both(child.stdout, child.stderr, most_bytes, child.stdin, given)
        return await child.wait(), out, said
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()


async def listed(argv: Sequence[str], *, within_s: float, most_bytes: int) -> bytes:
    """The output of a scheduler's program. Raises `SilentError` if the program fails or is late."""
    try:
        code, out, said = await asyncio.wait_for(ran(argv, most_bytes), within_s)
    except asyncio.TimeoutError:
        raise SilentError(Silence.LATE, argv[0]) from None
    if code:
        lines = said.decode("utf-8", "replace").strip().splitlines() or [f"exit code {code}"]
        raise SilentError(Silence.FAILED, lines[-1])
    return out
