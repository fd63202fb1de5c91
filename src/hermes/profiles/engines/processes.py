"""Several processes on this machine; each does one rank at a time, and one that dies takes no other rank with it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from hermes.base.cores import cores
from hermes.base.defects import WorkerFailedError
from hermes.base.errors import HermesError
from hermes.base.isolated import Worker
from hermes.profiles.engines.engine import Engine, Given, Lost, Made

_TRIES = 2
"""A rank whose process died is done again by another one, so often in all."""
_BYTES_EACH = 1 << 30
"""Memory that a process may come to need: no more are started than fit into what is free."""


@dataclass(slots=True)
class _Worker:
    """One process, and the rank that it is at."""

    worker: Worker
    rank: int | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self.worker.process

    @property
    def pipe(self) -> Connection:
        return self.worker.pipe


class Processes(Engine):
    """Up to `jobs` processes of their own interpreter: nothing of this one is shared with them or copied into them.

    They are started when the first rank is to be done, and kept until `close`.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or max(1, min(cores(), _room()))
        # Whoever says how many processes may run says how much of the machine to take.
        self._threads = 1 if jobs else max(1, cores() // self._jobs)
        self._workers: list[_Worker] = []

    @property
    def threads(self) -> int:
        """One for each process that was asked for; without a number the cores are shared out among the processes."""
        return self._threads

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | Lost]:
        """Ranks go to whichever process is free; memory holds one rank a process, and what was made."""
        left = deque(sorted(given))
        tries = dict.fromkeys(given, 0)
        found: dict[int, Made | Lost] = {}
        try:
            while len(found) < len(given):
                self._give(function, given, left, tries)
                for pipe in wait([worker.pipe for worker in self._workers if worker.rank is not None]):
                    worker = next(one for one in self._workers if one.pipe is pipe)
                    self._take(worker, left, tries, found)
        except BaseException:
            # Half done: what processes are at would be taken for the answer to the next call.
            self.close()
            raise
        return found

    def _give(
        self, function: Callable[[Given], Made], given: Mapping[int, Given], left: deque[int], tries: dict[int, int]
    ) -> None:
        """Hand ranks that are left to processes that are free; start those that are missing."""
        while left and len(self._workers) < self._jobs and all(one.rank is not None for one in self._workers):
            self._workers.append(_Worker(Worker.started(os.environ | {"POLARS_MAX_THREADS": str(self.threads)})))
            self._send(self._workers[-1], function, given, left, tries)
        for worker in self._workers:
            if left and worker.rank is None:
                self._send(worker, function, given, left, tries)

    def _send(
        self,
        worker: _Worker,
        function: Callable[[Given], Made],
        given: Mapping[int, Given],
        left: deque[int],
        tries: dict[int, int],
    ) -> None:
        worker.rank = left.popleft()
        tries[worker.rank] += 1
        try:
            worker.pipe.send((function, given[worker.rank]))
        except BrokenPipeError:
            # It died while it was idle: `wait` finds its end of the pipe closed.
            return

    def _take(self, worker: _Worker, left: deque[int], tries: dict[int, int], found: dict[int, Any]) -> None:
        """The answer of a process; of one that died, its rank is done again or lost."""
        rank = worker.rank
        if rank is None:
            return
        try:
            said, value = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._workers.remove(worker)
            died = _ended(worker)
            if tries[rank] < _TRIES:
                left.append(rank)
            else:
                found[rank] = Lost(rank=rank, error=_died(rank, died))
            return
        worker.rank = None
        if said == "broken":
            raise WorkerFailedError(f"rank {rank} could not be done", value)
        found[rank] = Lost(rank=rank, error=value) if said == "lost" else value

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.pipe.close()
            if worker.rank is not None:
                worker.process.kill()
            worker.process.wait()
        self._workers = []


def _ended(worker: _Worker) -> str:
    worker.pipe.close()
    code = worker.process.wait()
    if code >= 0:
        return f"it ended with {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"


def _died(rank: int, died: str) -> HermesError:
    return HermesError(
        f"the process that worked on rank {rank} died {_TRIES} times ({died})",
        where=f"rank {rank}",
        lost="this rank",
        hint="was memory short? Give fewer processes, such as --jobs 1",
    )


def _room() -> int:
    """How many processes fit into the memory that is free; where that is not told, as many as there are cores."""
    try:
        with open("/proc/meminfo", encoding="ascii") as told:  # noqa: PTH123 - a file of the kernel
            free = next(int(line.split()[1]) * 1024 for line in told if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return cores()
    return max(1, free // _BYTES_EACH)
