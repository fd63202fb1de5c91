"""Files of a run directory, opened as what a stranger may have put there: no link, no pipe, nothing of another's.

An operator looks at jobs of other users. Their folders are held by descriptor, since their owners may put another one
in their place at any time.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

from hermes.inside.wire.rundir import Job


def content(path: Path, largest: int) -> bytes | None:
    """The bytes of a small file; None for a link, a pipe, a device, one that is larger, or of another owner than its
    folder's. Nothing is waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > largest or facts.st_uid != path.parent.stat().st_uid:
            return None
        return os.read(descriptor, largest)
    except OSError:
        return None
    finally:
        os.close(descriptor)


class Pinned:
    """A job of another user whose folder is the one that it was: `job.folder` leads there by descriptor."""

    def __init__(self, job: Job) -> None:
        """Raises `OSError` unless the folder is one of the user whose job it is."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(job.folder, flags)
        if os.fstat(self._descriptor).st_uid != job.user:
            self.close()
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(job.folder))
        self.job = replace(job, folder=Path(f"/proc/self/fd/{self._descriptor}"))

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)
