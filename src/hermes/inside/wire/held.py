"""Files that stay open in the training process: under a high number, and looked at before each use.

The job may close any number, and open files of its own under it: what is written there must not be ours.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable

_HIGH = (400, 200, 100, 50)
"""Numbers from which on there is hardly a file of a job's; the lower ones where it may not have as many."""
_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` of 64-bit Linux (fcntl(2)): type, whence, start, length, process."""
_GET_LOCK, _SET_LOCK = 36, 37
"""`F_OFD_GETLK` and `F_OFD_SETLK` of Linux (fcntl.h), which Python names since 3.9."""


class Held:
    """An open file. `number` is where it is open for certain at that moment; it is asked for at each use, not kept."""

    __slots__ = ("_again", "_closed", "_locks", "_number", "_take", "_which")

    def __init__(
        self, number: int, again: Callable[[], int] | None = None, take: Callable[[int], object] | None = None
    ) -> None:
        """Takes the number over; the file may have another one from now on.

        `again` opens it anew where the job has closed it, and raises `OSError` where that cannot be. `take` is called
        with each number that the file gets, and may raise, too: POSIX locks end when any number of a file is closed.
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
        """Raises `OSError` where the file is closed, by us or by the job, and is not to be had again."""
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
        """Close the file, but none of the job's that has its number by now."""
        if self._is_ours():
            os.close(self._number)
        self._closed = True

    def lock(self, place: int, *, shared: bool = False) -> bool:
        """Lock that byte until the file is closed; whether it could be had. It needs not be there.

        The lock is the open file's (`F_OFD_SETLK`): it ends with its process, whatever number that has elsewhere, and
        who closes another descriptor of the file does not end it. A forked child has to close its copy.
        """
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        if not _lock(self.number, kind, place):
            return False
        self._locks[place] = kind
        return True

    def unlock(self, place: int) -> None:
        """Let that byte go."""
        self._locks.pop(place, None)
        _lock(self.number, fcntl.F_UNLCK, place)


def held(descriptor: int, first: int, count: int = 1) -> bool:
    """Whether another open file has locked one of these bytes: whether its process lives."""
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
    """The same file under a high number: who closes all low ones and opens others must not find ours among them."""
    for least in _HIGH:
        try:
            moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            continue
        os.close(number)
        return moved
    return number
