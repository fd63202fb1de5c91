"""Runs one command as a separate process and measures its cost: wall time, CPU time, memory.

## Traps

- The peak of a process counts from before `exec`: a large parent that forks would lend its own size to every
  command it measures. The harness therefore imports nothing large, and makes its inputs in other processes.
- `wait4` gives the processor time of a process and of all children that it waited for, but the peak of the
  largest one alone. A command that works with several processes is larger than that; a sampler adds them up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.1
LIMIT_S = 3_600.0
TAIL_BYTES = 2_000
_SESSION, _RESIDENT = 3, 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cost of one run of one command.

    `wall_ns` from start to end; `cpu_ns` user and system time of the process and its children; `peak_bytes` the
    largest resident size of one of its processes; `together_bytes` the largest sum over all of them, sampled,
    with shared pages counted in each; `tail` the end of what it printed; `load` the machine's load before it.
    """

    command: tuple[str, ...]
    wall_ns: int
    cpu_ns: int
    peak_bytes: int
    together_bytes: int
    exit_code: int
    tail: str
    load: float

    @property
    def failed(self) -> bool:
        """Whether the command reported a failure, or was stopped."""
        return self.exit_code != 0


def _installed(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of an installed package: pip compiles modules, and a checkout must be allowed to keep compiled
    ones."""
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    limit_s: float = LIMIT_S,
) -> Sample:
    """Run the command to its end, or stop it after `limit_s` seconds; its output goes to `log`.

    `environment` is added to this process's environment. Raises `OSError` when the command cannot be started.
    """
    load = os.getloadavg()[0]
    with log.open("wb") as output:
        start = time.perf_counter_ns()
        # In a session of its own, all processes of the command can be found, and stopped, by the session's number.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**_installed(os.environ), **(environment or {})},
            cwd=folder,
            start_new_session=True,
        )
        with _Sampler(process.pid, limit_s=limit_s) as sampler:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter_ns() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return Sample(
        command=tuple(command),
        wall_ns=wall,
        cpu_ns=round((usage.ru_utime + usage.ru_stime) * 1e9),
        peak_bytes=usage.ru_maxrss * 1_024,
        together_bytes=max(usage.ru_maxrss * 1_024, sampler.largest),
        exit_code=process.returncode,
        tail=log.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace"),
        load=load,
    )


class _Sampler:
    """A thread that watches the processes of a session: their total size, and their time limit."""

    def __init__(self, session: int, *, limit_s: float) -> None:
        self.largest = 0
        self._session = session
        self._deadline = time.monotonic() + limit_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.largest = max(self.largest, resident_bytes(self._session))
            if time.monotonic() > self._deadline:
                os.killpg(self._session, signal.SIGKILL)
                return


def resident_bytes(session: int) -> int:
    """Resident size of all processes of a session now; 0 where there is no `/proc`."""
    pages = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text("utf-8", "replace")
        except OSError:
            continue  # The process ended meanwhile.
        # The name in brackets may hold blanks and brackets: the needed fields come after the last bracket.
        fields = text[text.rfind(")") + 2 :].split()
        if int(fields[_SESSION]) == session:
            pages += int(fields[_RESIDENT])
    return pages * os.sysconf("SC_PAGE_SIZE")
