"""Keeps files open in the training process: under a high descriptor number, and checked before each use.

The job may close any descriptor, and open files of its own under the number: Hermes must not write into those.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable

_HIGH = (400, 200, 100, 50)
"""Descriptor numbers above which a job hardly has files; the lower numbers where the process may not open as many."""
_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux (fcntl(2)): type, whence, start, length, process."""
_GET_LOCK, _SET_LOCK = 36, 37
"""`F_OFD_GETLK` and `F_OFD_SETLK` of Linux (fcntl.h), which Python names since 3.9."""


class OpenFile:
    """An open file. `number` is the descriptor where the file is certainly open at that moment; read it at each use."""

    __slots__ = ("_again", "_closed", "_locks", "_number", "_take", "_which")

    def __init__(
        self, number: int, again: Callable[[], int] | None = None, take: Callable[[int], object] | None = None
    ) -> None:
        """Take over the descriptor `number`; the file may get another number now.

        `again` opens the file anew where the job has closed it, and raises `OSError` where it cannot be opened. `take`
        is called with each number that the file gets, and may raise, too: POSIX locks end when any number of a file is
        closed.
        """
        self._number = _high(number)
        self._which = _which(self._number)
        self._again = again
        self._take = take
        self._locks: dict[int, int] = {}
        self._closed = False
        if take is not None:
            try:
                take(self._number)
            except OSError:
                self.close()
                raise

    @property
    def number(self) -> int:
        """The file's descriptor. Raises `OSError` where Hermes or the job has closed the file, and it cannot be opened
        again."""
        if self._is_ours():
            return self._number
        if self._closed or self._again is None:
            raise OSError(errno.EBADF, "it was closed by the job")
        number = self._again()
        if _which(number) != self._which:
            os.close(number)
            raise OSError(errno.ESTALE, "it was closed by the job, and is gone")
        self._number = _high(number)
        if self._take is not None:
            self._take(self._number)
        for place, kind in self._locks.items():
            _lock(self._number, kind, place)
        return self._number

    def _is_ours(self) -> bool:
        try:
            return not self._closed and _which(self._number) == self._which
        except OSError:
            return False

    def close(self) -> None:
        """Close the file, but not a file of the job that has the same number by now."""
        if self._is_ours():
            os.close(self._number)
        self._closed = True

    def lock(self, place: int, *, shared: bool = False) -> bool:
        """Lock byte `place` until the file is closed; returns whether the lock was free. The byte need not exist in the
        file.

        The lock is the open file's (`F_OFD_SETLK`): it ends with its process, whatever pid the process has elsewhere,
        and closing another descriptor of the file does not end it. A forked child has to close its copy.
        """
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        if not _lock(self.number, kind, place):
            return False
        self._locks[place] = kind
        return True

    def unlock(self, place: int) -> None:
        """Release the lock of byte `place`."""
        self._locks.pop(place, None)
        _lock(self.number, fcntl.F_UNLCK, place)


def is_locked(descriptor: int, first: int, count: int = 1) -> bool:
    """Whether another open file has locked one of these bytes: whether that file's process lives."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, count, 0)
    found: int = _FLOCK.unpack(fcntl.fcntl(descriptor, _GET_LOCK, asked))[0]
    return found != fcntl.F_UNLCK


def _lock(descriptor: int, kind: int, place: int) -> bool:
    try:
        fcntl.fcntl(descriptor, _SET_LOCK, _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _which(number: int) -> tuple[int, int]:
    facts = os.fstat(number)
    return facts.st_dev, facts.st_ino


def _high(number: int) -> int:
    """The same file under a high number: a job that closes all low descriptors and opens others must not hit the
    file."""
    for least in _HIGH:
        try:
            moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            continue
        os.close(number)
        return moved
    return number
