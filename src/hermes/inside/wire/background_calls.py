"""Makes calls in a thread beside the training thread: a step must not wait for calls that access a disk."""

from __future__ import annotations

import _thread
import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

from hermes.inside.error_guard import Border, silent

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """One call in a thread of its own, begun at once; the process may end while the call runs."""

    def __init__(self, call: Callable[[], T]) -> None:
        """Start the thread. Raises `RuntimeError` when no thread can be started."""
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
        """Whether the call has ended, or ends within `patience_s` seconds."""
        if not self._done.acquire(timeout=patience_s):
            return False
        self._done.release()
        return True

    def result(self) -> T:
        """The result of the call, once it is `done`; raises the call's exception."""
        if self._raised is not None:
            raise self._raised
        return self._value
