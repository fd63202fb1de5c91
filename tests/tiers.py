"""Holds each test to its tier: a test of the core stays in its process and waits for no clock.

`make test` runs the core: tests that are neither `slow` nor `live`. `make test-smoke` runs the tests marked `smoke`,
`make test-all` runs all. docs/contributing/tests.md says which test belongs where.
"""

from __future__ import annotations

import multiprocessing.process
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_STARTS = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen",
})  # fmt: skip
_CONNECTS = frozenset({
    "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendmsg", "socket.sendto",
})  # fmt: skip


class Tiers:
    """A pytest plugin that fails a test which does what only a live test may do, and names the mark to use.

    An audit hook can't be removed, so one plugin serves the whole process.
    """

    def __init__(self) -> None:
        self._core: str | None = None
        self._earlier: frozenset[threading.Thread] = frozenset()
        self._broken: list[str] = []
        sys.addaudithook(self._audit)
        time.sleep = self._refusing(time.sleep, "sleeps")
        start = self._refusing(multiprocessing.process.BaseProcess.start, "starts a process")
        multiprocessing.process.BaseProcess.start = start  # type: ignore[method-assign]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark smoke tests as live: each starts something."""
        for item in items:
            if item.get_closest_marker("smoke"):
                item.add_marker(pytest.mark.live)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch one test, with the fixtures that are made for it."""
        self._core = None if any(map(item.get_closest_marker, ("live", "slow"))) else item.nodeid
        # A live test may have left a thread that still does what the live test asked of it.
        self._earlier = frozenset(threading.enumerate()) - {threading.current_thread()}
        self._broken.clear()
        try:
            return (yield)  # type: ignore[misc]
        finally:
            self._core = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Fail the test also where the code under test caught the refusal."""
        try:
            return (yield)  # type: ignore[misc]
        finally:
            broken, self._broken = sorted(set(self._broken)), []
            if broken:
                pytest.fail("\n".join(broken), pytrace=False)

    def _audit(self, event: str, _arguments: tuple[object, ...]) -> None:
        if (event in _STARTS or event in _CONNECTS) and self._watched():
            self._refuse("starts a process" if event in _STARTS else "uses a socket", event)

    def _refusing(self, function: Callable[..., Any], what: str) -> Callable[..., Any]:
        def guarded(*arguments: Any, **named: Any) -> Any:
            if self._watched():
                self._refuse(what, function.__qualname__)
            return function(*arguments, **named)

        return guarded

    def _watched(self) -> bool:
        """Whether a core test runs, on this thread or on one that it started."""
        return self._core is not None and threading.current_thread() not in self._earlier

    def _refuse(self, what: str, how: str) -> None:
        told = f"a core test {what} ({how}): call the code in process, or mark the test `live`"
        self._broken.append(told)
        raise RuntimeError(f"{self._core}: {told}")
