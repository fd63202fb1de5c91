"""Times Python's garbage collector, but not while a profiler records: a callback in Python could then crash the job."""

from __future__ import annotations

import gc
from collections.abc import Callable


class Collections:
    """The callback of one process in `gc.callbacks`, which times garbage collections.

    A profiler of Python stacks allocates memory while it handles the state of another thread: when it starts, and at
    each call of that thread. A collection may begin there. A callback in Python then lets the other thread go on, in a
    state that the profiler is changing. With torch 2.13 the profiler does not start ("frame_refcount >= 2"), or the
    process crashes.
    """

    __slots__ = ("_callback", "_over")

    def __init__(self, callback: Callable[..., object]) -> None:
        self._callback = callback
        self._over = False

    def listen(self) -> None:
        """Time garbage collections from now on."""
        if not self._over and self._callback not in gc.callbacks:
            gc.callbacks.append(self._callback)

    def pause(self) -> bool:
        """Time no garbage collections until `listen` is called: a profiler is about to start. False if none was
        timed."""
        if self._callback not in gc.callbacks:
            return False
        gc.callbacks.remove(self._callback)
        return True

    def end(self) -> None:
        """Stop timing garbage collections."""
        self._over = True
        self.pause()
