"""Moves every thread of the ranks to the planned cores, and restores the former cores of each thread."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.base.write_atomic import write_atomic
from hermes.migrate.affinity import messages as say
from hermes.migrate.affinity.machine_topology import ranges

_PASSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundProcess:
    """The result of moving one process: how many threads were moved, and why the other threads were not."""

    pid: int
    cpus: frozenset[int]
    threads: int
    failed: Sequence[Message] = ()


def state_file(environment: Mapping[str, str], home: Path) -> Path:
    """The path of the file that stores the former cores of threads."""
    base = environment.get("XDG_STATE_HOME", "")
    return (Path(base) if base else home / ".local" / "state") / "hermes" / "affinity.json"


def apply(wanted: Mapping[int, frozenset[int]], state: Path) -> list[BoundProcess]:
    """Move all threads of each process to its planned cores; the former cores are written to `state` first."""
    before = {str(pid): _before(pid) for pid in wanted}
    _keep(state, before)
    return [_move_all(pid, cores) for pid, cores in wanted.items()]


def restore(state: Path) -> list[BoundProcess]:
    """Give all threads their cores from before `apply`; threads started since get the cores of their process."""
    try:
        kept: dict[str, dict[str, object]] = json.loads(state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(say.NOT_APPLIED, where=str(state), hint=say.APPLY_FIRST) from None
    except (OSError, ValueError) as wrong:
        raise InputError(say.state_unreadable(reason=str(wrong)), where=str(state)) from wrong
    done = [_restore(int(pid), entry) for pid, entry in kept.items()]
    state.unlink(missing_ok=True)
    return done


def _threads(pid: int) -> list[int]:
    try:
        return sorted(int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _started(pid: int) -> str:
    """The start time of a process in ticks, which tells it from a later process with the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _before(pid: int) -> dict[str, object]:
    threads: dict[str, str] = {}
    for thread in _threads(pid):
        with contextlib.suppress(OSError):
            threads[str(thread)] = ranges(frozenset(os.sched_getaffinity(thread)))
    return {"started": _started(pid), "threads": threads}


def _keep(state: Path, before: dict[str, dict[str, object]]) -> None:
    """Add former cores to the state; entries of processes that still run stay, so repeated `apply` can be undone."""
    old: dict[str, dict[str, object]] = {}
    with contextlib.suppress(OSError, ValueError):
        old = json.loads(state.read_text(encoding="utf-8"))
    for pid, entry in old.items():
        if pid in before and before[pid]["started"] == entry.get("started"):
            before[pid] = entry
        elif _started(int(pid)) == entry.get("started") != "":
            before.setdefault(pid, entry)
    state.parent.mkdir(parents=True, exist_ok=True)
    with write_atomic(state) as file:
        file.write(json.dumps(before).encode())


def _move_all(pid: int, cores: frozenset[int]) -> BoundProcess:
    moved: set[int] = set()
    failed: dict[int, Message] = {}
    if not _threads(pid):
        return BoundProcess(pid=pid, cpus=cores, threads=0, failed=(say.not_running(pid=str(pid)),))
    # Another pass finds threads that a thread started before it was moved.
    for _ in range(_PASSES):
        new = [thread for thread in _threads(pid) if thread not in moved and thread not in failed]
        if not new:
            break
        for thread in new:
            reason = _move(thread, cores)
            if reason is not None:
                failed[thread] = reason
            else:
                moved.add(thread)
    return BoundProcess(pid=pid, cpus=cores, threads=len(moved), failed=tuple(failed.values()))


def _move(thread: int, cores: frozenset[int]) -> Message | None:
    """Move a thread to these cores; returns the reason if it could not be moved."""
    try:
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:
        return None
    except OSError as refused:
        return say.thread_stays(thread=str(thread), reason=refused.strerror or str(refused))
    given = frozenset(os.sched_getaffinity(thread))
    return None if given == cores else say.other_cores(thread=str(thread))


def _restore(pid: int, entry: dict[str, object]) -> BoundProcess:
    from hermes.migrate.affinity.machine_topology import cpus

    threads = entry.get("threads")
    known = {int(thread): cpus(str(text)) for thread, text in threads.items()} if isinstance(threads, dict) else {}
    usual = known.get(pid) or next(iter(known.values()), frozenset())
    if not _started(pid) or _started(pid) != entry.get("started"):
        return BoundProcess(pid=pid, cpus=usual, threads=0, failed=(say.not_running(pid=str(pid)),))
    moved, failed = 0, []
    for thread in _threads(pid):
        reason = _move(thread, known.get(thread, usual))
        moved += reason is None
        if reason is not None:
            failed.append(reason)
    return BoundProcess(pid=pid, cpus=usual, threads=moved, failed=tuple(failed))
