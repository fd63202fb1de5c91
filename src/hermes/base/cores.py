"""How much of this machine a process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from hermes.base.defects import WorkerFailedError
from hermes.base.ending import with_parent
from hermes.base.isolated import Worker

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
    """So many processes; each calls `start` with these arguments first. Functions and values must be picklable."""
    if threading.active_count() > 1:
        return _Apart(count, start, arguments)
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork shares what is loaded; beside other threads it is not safe.
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(start, *arguments))


def _begin(start: Callable[..., None] | None, *arguments: Any) -> None:
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        with_parent(parent.sentinel)
    if start is not None:
        start(*arguments)


class _Apart(ThreadPoolExecutor):
    """Interpreters of their own, each served by a thread. Those of `multiprocessing` import what the folder holds."""

    def __init__(self, count: int, start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
        super().__init__(count, "hermes-apart", initializer=self._begin, initargs=(start, arguments))
        self._here = threading.local()
        self._workers: list[Worker] = []

    def _begin(self, start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
        self._here.worker = Worker.started(os.environ)
        self._workers.append(self._here.worker)
        if start is not None:
            self._call(start, arguments, {})

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        pipe = self._here.worker.pipe
        pipe.send((_applied, (function, args, named)))
        try:
            said, value = pipe.recv()
        except EOFError as died:
            raise RuntimeError("a process that was given work died") from died
        if said == "broken":
            raise WorkerFailedError("a call failed", value)
        if said == "lost":
            raise value
        return value

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """The result of a process that is free."""
        return super().submit(self._call, function, args, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, when their work is done."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for worker in self._workers:
            worker.pipe.close()
            worker.process.wait()


def _applied(given: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    function, args, named = given
    return function(*args, **named)


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
