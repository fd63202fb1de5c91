"""Reaches hosts by SSH, with your own keys, agent, configuration and known hosts."""

from __future__ import annotations

import asyncio
import resource
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes.base.errors import HermesError
from hermes.fleet.hosts import messages
from hermes.fleet.hosts.transport import Silence, SilentError, both

_HANDSHAKES = 64
"""Connections that are made at a time: a handshake takes the interpreter for some milliseconds."""
_CONNECT_S = 30.0
_ALIVE_S, _ALIVE_TRIES = 5.0, 3
"""Seconds between keep-alive messages to a host, and how many may stay unanswered."""
_SPARE_FILES = 256
_SESSIONS = 8
"""Sessions at a time on one connection: a server of OpenSSH allows ten by default."""


class Ssh:
    """A transport by SSH. A host keeps its connection until `close`."""

    def __init__(self, addresses: Mapping[str, str], config: Path | None = None) -> None:
        """`addresses` by host name; `config` replaces `~/.ssh/config`. Raises `HermesError` without asyncssh."""
        self._library = _library()
        self._addresses = dict(addresses)
        self._config = config
        self._open: dict[str, asyncio.Task[Any]] = {}
        self._room: asyncio.Semaphore | None = None
        self._sessions: dict[str, asyncio.Semaphore] = {}
        _more_files(len(addresses))

    @property
    def hosts(self) -> tuple[str, ...]:
        """All host names in the file of hosts."""
        return tuple(self._addresses)

    @property
    def absent(self) -> Mapping[str, str]:
        """Always empty: with SSH no scheduler knows which hosts are absent."""
        return {}

    async def run(
        self, host: str, words: Sequence[str], most_bytes: int, given: bytes = b""
    ) -> tuple[int, bytes, bytes]:  # fmt: skip
        """Run words on a host, as `Transport.run`: a shell of the account on the host reads the words, quoted once."""
        library = self._library
        try:
            connection = await asyncio.shield(self._connection(host))
            async with self._sessions.setdefault(host, asyncio.Semaphore(_SESSIONS)):
                process, out, said = await self._ran(connection, words, most_bytes, given)
            code = process.exit_status
        except library.HostKeyNotVerifiable as strange:
            raise SilentError(Silence.STRANGER, strange.reason) from strange
        except library.PermissionDenied as refused:
            raise SilentError(Silence.STRANGER, refused.reason) from refused
        except library.Error as broken:
            self._open.pop(host, None)
            raise SilentError(Silence.UNREACHABLE, broken.reason) from broken
        except OSError:
            self._open.pop(host, None)
            raise
        if code is None:
            # For a command that a signal has ended, the host reports the signal.
            ended = process.exit_signal
            raise SilentError(Silence.FAILED, ended[0]) if ended else SilentError(Silence.UNREACHABLE, "")
        return code, out, said

    async def _ran(
        self, connection: Any, words: Sequence[str], most_bytes: int, given: bytes
    ) -> tuple[Any, bytes, bytes]:  # fmt: skip
        # Without input, standard input ends at once; the shell sees only the text of the words.
        library = self._library
        process = await connection.create_process(
            shlex.join(words), encoding=None, stdin=library.PIPE if given else library.DEVNULL, request_pty=False
        )  # fmt: skip
        try:
            stdin = process.stdin if given else None
            out, said = await both(process.stdout, process.stderr, most_bytes, stdin, given)
            await process.wait_closed()
        finally:
            # Do not wait for the close: the host may be gone.
            process.kill()
            process.close()
        return process, out, said

    def _connection(self, host: str) -> asyncio.Task[Any]:
        known = self._open.get(host)
        if known is None or (known.done() and (known.cancelled() or known.exception() or known.result().is_closed())):
            known = self._open[host] = asyncio.create_task(self._connect(host))
        return known

    async def _connect(self, host: str) -> Any:
        if self._room is None:
            self._room = asyncio.Semaphore(_HANDSHAKES)
        config: Any = () if self._config is None else [str(self._config)]
        async with self._room:
            return await self._library.connect(
                self._addresses[host], config=config, connect_timeout=_CONNECT_S, login_timeout=_CONNECT_S,
                keepalive_interval=_ALIVE_S, keepalive_count_max=_ALIVE_TRIES, password=None, kbdint_auth=False,
                agent_forwarding=False, x11_forwarding=False,
            )  # fmt: skip

    async def close(self) -> None:
        """Close the SSH connections to all hosts."""
        tasks, self._open = list(self._open.values()), {}
        for task in tasks:
            task.cancel()
        for made in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(made, BaseException):
                made.abort()


def _library() -> ModuleType:
    try:
        import asyncssh
    except ImportError as absent:
        raise HermesError(messages.NO_ASYNCSSH, hint=messages.DO_INSTALL_ASYNCSSH) from absent
    # asyncssh would print each failed login on stderr.
    asyncssh.set_log_level("CRITICAL")
    library: ModuleType = asyncssh
    return library


def _more_files(wanted: int) -> None:
    """Raise the limit of open files: each connection is a file, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = 2 * wanted + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < need:
        most = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
