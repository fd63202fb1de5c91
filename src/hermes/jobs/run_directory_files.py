"""Opens files of a run directory that a stranger may have replaced: no link, no pipe, no file of another user.

An operator reads jobs of other users. Other users' folders are held by descriptor, since an owner may replace a folder
at any time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from io import FileIO
from pathlib import Path

from hermes.inside.wire.rundir import Job


def content(path: Path, largest: int) -> bytes | None:
    """The bytes of a small file; None for a link, a pipe, a device, a larger file, or a file whose owner is not its
    folder's. The call never waits."""
    with _opened(path) as file:
        if file is None or os.fstat(file.fileno()).st_size > largest:
            return None
        return _read(file, largest)


def last_lines(path: Path, most: int) -> list[bytes]:
    """The last whole lines of a file, within `most` bytes; empty where `content` would return None."""
    with _opened(path) as file:
        if file is None:
            return []
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - most, 0))
        lines = (_read(file, most) or b"").splitlines()
        return lines[1:] if size > most else lines


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[FileIO | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        facts = os.fstat(descriptor)
        sound = stat.S_ISREG(facts.st_mode) and facts.st_uid == path.parent.stat().st_uid
        yield file if sound else None


def _read(file: FileIO, most: int) -> bytes | None:
    try:
        return file.read(most)
    except OSError:
        return None


class PinnedJob:
    """A job of another user whose folder has not been replaced: `job.folder` opens the folder by descriptor."""

    def __init__(self, job: Job) -> None:
        """Raises `OSError` unless the folder belongs to the user of the job."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(job.folder, flags)
        if os.fstat(self._descriptor).st_uid != job.user:
            self.close()
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(job.folder))
        self.job = replace(job, folder=Path(f"/proc/self/fd/{self._descriptor}"))

    def close(self) -> None:
        """Close the folder's descriptor."""
        os.close(self._descriptor)
