"""How much of this machine a process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads a library may start here: what `POLARS_MAX_THREADS` says, as polars heeds it, or the cores."""
    said = os.environ.get("POLARS_MAX_THREADS", "")
    return max(1, min(cores(), int(said))) if said.isdecimal() else cores()


def beside() -> Executor:
    """A thread beside this one where there is a core for it; else who submits something does it, at once."""
    return ThreadPoolExecutor(max_workers=1) if threads() > 1 else _Here()


def processes(count: int, *, start: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()) -> Executor:
    """So many processes; each calls `start` with these arguments first."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork shares what is loaded; beside other threads it is not safe.
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "forkserver")
    return ProcessPoolExecutor(count, mp_context=context, initializer=start, initargs=arguments)


class _Here(Executor):
    """Runs what is submitted there and then."""

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """The result, which is there; an error of the function is its result, as with threads."""
        made: Future[T] = Future()
        try:
            made.set_result(function(*args, **named))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            made.set_exception(error)
        return made
