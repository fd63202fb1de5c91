"""The engine of several processes on this machine: each does one rank at a time; if one dies, only its rank is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from hermes.base.defect_reports import WorkerFailedError
from hermes.base.errors import HermesError
from hermes.base.isolated_python import WorkerProcess
from hermes.base.message import Message
from hermes.base.usable_cores import cores
from hermes.profiles.engines import messages
from hermes.profiles.engines.engine import Engine, Given, LostRank, Made
from hermes.profiles.messages import LOST_THIS_RANK

_TRIES = 2
"""How often a rank is tried in all, if the process that works on it dies."""
_BYTES_EACH = 1 << 30
"""Memory in bytes that a process may need: only as many processes start as fit into free memory."""


@dataclass(slots=True)
class _Worker:
    """One worker process, and its current rank."""

    worker: WorkerProcess
    rank: int | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self.worker.process

    @property
    def pipe(self) -> Connection:
        return self.worker.pipe


class Processes(Engine):
    """An engine of up to `jobs` processes, each with its own interpreter and without memory shared with this process.

    Processes start when the first rank is to be done, and are kept until `close`.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or max(1, min(cores(), _room()))
        # If you set the number of processes, each process takes one thread.
        self._threads = 1 if jobs else max(1, cores() // self._jobs)
        self._workers: list[_Worker] = []

    @property
    def threads(self) -> int:
        """One thread per process if the number of processes was set; else the cores are shared among the processes."""
        return self._threads

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | LostRank]:
        """Run the function for each rank in any free process; memory holds one rank per process and the results."""
        left = deque(sorted(given))
        tries = dict.fromkeys(given, 0)
        found: dict[int, Made | LostRank] = {}
        try:
            while len(found) < len(given):
                self._give(function, given, left, tries)
                for pipe in wait([worker.pipe for worker in self._workers if worker.rank is not None]):
                    worker = next(one for one in self._workers if one.pipe is pipe)
                    self._take(worker, left, tries, found)
        except BaseException:
            # Half done: unfinished results of processes would be taken for answers to the next call.
            self.close()
            raise
        return found

    def _give(
        self, function: Callable[[Given], Made], given: Mapping[int, Given], left: deque[int], tries: dict[int, int]
    ) -> None:
        """Give waiting ranks to free processes, and start missing processes."""
        while left and len(self._workers) < self._jobs and all(one.rank is not None for one in self._workers):
            self._workers.append(_Worker(WorkerProcess.started(os.environ | {"POLARS_MAX_THREADS": str(self.threads)})))
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
            # The process died while it was idle: `wait` finds its end of the pipe closed.
            return

    def _take(self, worker: _Worker, left: deque[int], tries: dict[int, int], found: dict[int, Any]) -> None:
        """Take the answer of a process; if the process died, its rank is done again or lost."""
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
                found[rank] = LostRank(rank=rank, error=_died(rank, died))
            return
        worker.rank = None
        if said == "broken":
            raise WorkerFailedError(messages.rank_failed(rank=rank), value)
        found[rank] = LostRank(rank=rank, error=value) if said == "lost" else value

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.pipe.close()
            if worker.rank is not None:
                worker.process.kill()
            worker.process.wait()
        self._workers = []


def _ended(worker: _Worker) -> Message:
    worker.pipe.close()
    code = worker.process.wait()
    if code >= 0:
        return messages.ended_with(code=str(code))
    try:
        return messages.ended_by(signal=signal.Signals(-code).name)
    except ValueError:
        return messages.ended_by_number(number=str(-code))


def _died(rank: int, died: Message) -> HermesError:
    return HermesError(
        messages.process_died(rank=rank, times=_TRIES, how=died),
        where=f"rank {rank}",
        lost=LOST_THIS_RANK,
        hint=messages.DO_FEWER_PROCESSES,
    )


def _room() -> int:
    """How many processes fit into free memory; as many as there are cores if free memory is unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as told:  # noqa: PTH123 - a file of the kernel
            free = next(int(line.split()[1]) * 1024 for line in told if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return cores()
    return max(1, free // _BYTES_EACH)
