"""Recovers what a crashed job left: records that were not written yet, and shared memory that no process holds."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.inside.wire import process
from hermes.inside.wire.control import Control
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.ring import RingReader, RingWriter
from hermes.inside.wire.rundir import _GRACE_S, _RING, _SEGMENT, JOB_FILE, Job, _names, _rings, read, rings
from hermes.inside.wire.step_record import pack
from hermes.inside.wire.steplog import LogWriter, last_index

_TRIES, _PAUSE_S = 20, 0.05
"""How long the start of a rank waits for another process that writes the rank's log: a second."""


def _nothing(_rank: int, _count: int) -> None:
    """Ignore the number of lost records: the default for `lost`."""


def recover(job: Job, *, of: int | None = None, lost: Callable[[int, int], object] = _nothing) -> int:
    """Write the records of dead ranks, or of rank `of`, from their rings into their logs; returns the number of
    records.

    `lost` gets a rank and the number of its records that are in neither: the rank's disk was slower than its steps.
    Raises `LogInUseError` where another process writes one of the logs: that process saves these records.
    """
    saved, elsewhere = 0, None
    for rank, _, path in rings(job):
        if of is not None and rank != of:
            continue
        try:
            reader = RingReader(path)
        except LiveError:
            continue
        if not reader.alive:
            try:
                count, missing = _recover_ring(job.log_path(rank), reader)
                saved += count
                if missing:
                    lost(rank, missing)
            except LogInUseError as other:
                elsewhere = other
            except (LiveError, OSError):
                pass
        reader.close()
    if elsewhere is not None:
        raise elsewhere
    return saved


def _recover_ring(log: Path, reader: RingReader) -> tuple[int, int]:
    """The number of records written into the log, and of records between the log and the ring that are lost."""
    known = last_index(log)
    rows = [row for row in reader.new() if row[0] > known]
    missing = rows[0][0] - known - 1 if rows else 0
    if rows:
        # A watcher of the rank writes the log too: only one process gets the log's lock.
        writer = LogWriter(log, reader.about)
        try:
            writer.append(b"".join(pack(*row[:-1]) for row in rows if row[0] > last_index(log)))
        finally:
            writer.close()
    return len(rows), missing


def save_and_remove(job: Job) -> None:
    """Save the records of dead ranks, and remove a job's segment and rings, unless a process is still in the job.

    Raises `LogInUseError` where another process is saving: the memory stays until the records are in the log.
    """
    recover(job)
    try:
        control = Control.attach(job.segment, job=job.id)
    except LiveError:
        removed = not job.segment.exists()
    else:
        try:
            removed = control.remove()
        finally:
            control.close()
    if removed:
        # Save the records of ranks that died meanwhile.
        recover(job)
        for _, _, path in rings(job):
            path.unlink(missing_ok=True)


def clean(*memory: Path) -> list[str]:
    """Remove the shared memory of jobs whose processes have all ended; returns the jobs' ids. Logs and captures stay.

    Records that a killed rank had in its ring and not yet in its log are written into the log first. Segments without a
    run directory are removed, too: of a process killed on its way into a job, or of a removed folder. A process lives
    if it holds its locks, which work across containers; process numbers only protect a segment that no process has
    locked yet. Only these folders are read: run directories of jobs that have ended cost nothing.
    """
    cleaned = []
    for place in memory:
        for name in _names(place):
            with contextlib.suppress(OSError, LiveError):
                cleaned += _cleaned(place / name)
    return cleaned


def _kept(maker: tuple[int, int], space: int, path: Path) -> bool:
    """Whether a segment must stay even if nobody holds it: its maker lives, or the file is gone."""
    if space == process.pid_namespace():
        return process.alive(*maker) or not path.exists()
    try:
        return time.time() - path.stat().st_mtime < _GRACE_S
    except OSError:
        return True


def _cleaned(path: Path) -> list[str]:
    """Remove a segment and its rings, once neither its keeper nor a rank lives; returns the id of the job in a list."""
    if not _SEGMENT.fullmatch(path.name):
        _remove_lone(path)
        return []
    if not _begun(path):
        return []
    control = Control.attach(path)
    try:
        about = control.about
        maker, space, folder = about["maker"], about["space"], Path(str(about["folder"]))
        job = read(folder) if (folder / JOB_FILE).exists() else None
        if job is None or job.segment != path:
            if not _kept((maker[0], maker[1]), space, path) and control.remove():  # type: ignore[index, arg-type]
                for _, _, ring in _rings(path):
                    ring.unlink(missing_ok=True)
            return []
        if _kept(job.owner, job.space, path) or control.in_use():
            return []
    except (LookupError, TypeError):
        return []
    finally:
        control.close()
    save_and_remove(job)
    return [job.id]


def _begun(path: Path) -> bool:
    """Whether the segment has its header; a segment without one, left by a process killed at once, is removed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        if any(os.read(descriptor, 8)):
            return True
    finally:
        os.close(descriptor)
    if time.time() - path.stat().st_mtime > 1:
        path.unlink(missing_ok=True)
    return False


def _remove_lone(path: Path) -> None:
    """Remove a ring whose segment is gone, once the ring's rank has ended."""
    name = _RING.fullmatch(path.name)
    if name is None or (path.parent / name[1]).exists():
        return
    reader = RingReader(path)
    alive = reader.alive
    reader.close()
    if not alive:
        path.unlink(missing_ok=True)


def _saved(job: Job, rank: int) -> bool:
    """Whether the records of the rank's earlier processes are in its log; waits a moment for another process that
    saves."""
    for _ in range(_TRIES):
        try:
            recover(job, of=rank)
        except LogInUseError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def open_ring(job: Job, rank: int, about: Mapping[str, object]) -> RingWriter:
    """The ring of this process for a rank, with numbers that follow the rank's log. Raises `LiveError`.

    Rings of earlier processes of the rank are written into its log and removed first.
    """
    saved = _saved(job, rank)
    for number, _, path in rings(job):
        if saved and number == rank:
            with contextlib.suppress(LiveError, OSError):
                reader = RingReader(path)
                alive = reader.alive
                reader.close()
                if not alive:
                    path.unlink(missing_ok=True)
    pid, started = process.own_identity()
    about = {**about, "job": job.id, "rank": rank, "pid": pid, "started": started, "space": process.pid_namespace()}
    return RingWriter(job.ring_path(rank, pid), about, base=last_index(job.log_path(rank)))
