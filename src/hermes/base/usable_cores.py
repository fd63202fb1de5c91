"""How many processor cores and threads Hermes may use, and pools of worker threads and processes that fit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from hermes.base.defect_reports import WorkerFailedError
from hermes.base.end_on_signal import end_with_parent
from hermes.base.isolated_python import WorkerProcess

T = TypeVar("T")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads a library may start here: `POLARS_MAX_THREADS`, at most the number of cores; else the cores."""
    said = os.environ.get("POLARS_MAX_THREADS", "")
    return max(1, min(cores(), int(said))) if said.isdecimal() else cores()


def spare_thread() -> Executor:
    """An executor with one more thread if there is a core for it; otherwise `submit` runs the function at once."""
    return ThreadPoolExecutor(max_workers=1) if threads() > 1 else _Here()


def processes(count: int, *, start: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()) -> Executor:
    """A pool of `count` processes; each first calls `start` with `arguments`.

    Functions and values must be picklable.
    """
    if threading.active_count() > 1:
        return _Apart(count, start, arguments)
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A forked process shares the modules that are loaded. Forking is not safe while other threads run.
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(start, *arguments))


def _begin(start: Callable[..., None] | None, *arguments: Any) -> None:
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        end_with_parent(parent.sentinel)
    if start is not None:
        start(*arguments)


class _Apart(ThreadPoolExecutor):
    """A pool of fresh interpreters, each served by one thread.

    A process of `multiprocessing` would import files of the folder.
    """

    def __init__(self, count: int, start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
        super().__init__(count, "hermes-apart", initializer=self._begin, initargs=(start, arguments))
        self._here = threading.local()
        self._workers: list[WorkerProcess] = []

    def _begin(self, start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
        self._here.worker = WorkerProcess.started(os.environ)
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
        """Run a function in a free process; the future holds its result."""
        return super().submit(self._call, function, args, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when their work is done."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for worker in self._workers:
            worker.pipe.close()
            worker.process.wait()


def _applied(given: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> Any:
    function, args, named = given
    return function(*args, **named)


class _Here(Executor):
    """An executor without threads: it runs each function at once, in the calling thread."""

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Run a function now; the finished future holds its result or its error."""
        made: Future[T] = Future()
        try:
            made.set_result(function(*args, **named))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            made.set_exception(error)
        return made
