"""Calls made beside the training thread: what asks a disk must not be waited for by a step."""

from __future__ import annotations

import _thread
import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

from hermes.inside.border import Border, silent

T = TypeVar("T")


class Beside(Generic[T]):
    """One call in a thread of its own, begun at once; the process may end while it runs."""

    def __init__(self, call: Callable[[], T]) -> None:
        """Raises `RuntimeError` when there can be no thread."""
        self._done = _thread.allocate_lock()
        self._done.acquire()
        self._value: T
        self._raised: BaseException | None = None
        self._call: Callable[[], T] | None = call
        _thread.start_new_thread(Border(silent).entry(self._run), ())

    def _run(self) -> None:
        try:
            if self._call is not None:
                self._value = self._call()
        except BaseException as broken:  # noqa: BLE001 - raised again by `result`
            self._raised = broken
        finally:
            self._call = None
            with contextlib.suppress(RuntimeError):
                self._done.release()

    def done(self, patience_s: float = 0.0) -> bool:
        """Whether it has ended, or does so in that time."""
        if not self._done.acquire(timeout=patience_s):
            return False
        self._done.release()
        return True

    def result(self) -> T:
        """What the call returned, once it is `done`; raises what it raised."""
        if self._raised is not None:
            raise self._raised
        return self._value
