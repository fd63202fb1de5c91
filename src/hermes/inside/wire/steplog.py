"""The step log of one rank: a header and fixed-size records, appended in batches, bounded, readable while it grows."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from hermes.inside.wire import shared_memory_file
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.open_files import OpenFile
from hermes.inside.wire.step_record import SIZE, unpack

MAGIC = b"HERMLOG1"
LARGEST = 32 << 20
"""Bytes of a log before it is set aside as `….1`, over the log set aside before: 130 000 steps each."""


class LogWriter:
    """A writer that appends packed records to a step log; a log that grew too large is set aside once, by renaming."""

    def __init__(self, path: Path, about: Mapping[str, object], largest: int = LARGEST) -> None:
        """Open or make the log; an incomplete record at its end is cut off. Raises `LiveError`.

        One process at a time writes a log: other processes get `LogInUseError`. The lock is a POSIX one: a forked
        worker does not inherit it.
        """
        self.path = path
        self.about = dict(about)
        self.largest = largest
        self._file: OpenFile | None = None
        self._size = 0
        self._open()

    def append(self, records: bytes) -> None:
        """Append whole records. Raises the `OSError` of the disk; an incomplete record is removed again."""
        if self._size + len(records) > self.largest and self._size > shared_memory_file.HEADER:
            self._set_aside()
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        written = os.write(self._file.number, records)
        if written != len(records):
            # A full disk takes a part of the records: the next reader would see an incomplete record, so cut it off.
            os.ftruncate(self._file.number, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += written

    def close(self) -> None:
        """Close the step log's file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        try:
            self._file = OpenFile(self._opened(os.O_CREAT), self._opened, _lock)
            number = self._file.number
            size = os.fstat(number).st_size
            if size < shared_memory_file.HEADER:
                os.ftruncate(number, 0)
                first = shared_memory_file.header(MAGIC, 0, {**self.about, "record": SIZE})
                if os.write(number, first) != len(first):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                size = shared_memory_file.HEADER
            else:
                shared_memory_file.parse_header(os.pread(number, shared_memory_file.HEADER, 0), MAGIC, str(self.path))
            whole = shared_memory_file.HEADER + (size - shared_memory_file.HEADER) // SIZE * SIZE
            if whole != size:
                os.ftruncate(number, whole)
            self._size = whole
        except BlockingIOError as taken:
            self.close()
            raise LogInUseError(f"{self.path} is being written by another process") from taken
        except OSError as refused:
            self.close()
            raise LiveError(f"{self.path} cannot be written ({refused.strerror})") from refused
        except LiveError:
            self.close()
            raise

    def _opened(self, more: int = 0) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | more, 0o600)

    def _set_aside(self) -> None:
        self.close()
        self.path.replace(self.path.with_name(self.path.name + ".1"))
        try:
            self._open()
        except LiveError as refused:
            raise OSError(str(refused)) from refused


def _lock(number: int) -> None:
    fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _reading(path: Path) -> BinaryIO:
    """The file, opened without waiting for another process; raises `OSError` for a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no file", str(path))
    return os.fdopen(descriptor, "rb")


def read_about(path: Path) -> dict[str, object]:
    """The description in a log's header. Raises `LiveError` when the file is no step log."""
    try:
        with _reading(path) as file:
            return shared_memory_file.parse_header(file.read(shared_memory_file.HEADER), MAGIC, str(path))[1]
    except OSError as refused:
        raise LiveError(f"{path} cannot be read ({refused.strerror})") from refused


def is_log(path: Path) -> bool:
    """Whether the file begins as a step log does."""
    with contextlib.suppress(OSError), _reading(path) as file:
        return file.read(len(MAGIC)) == MAGIC
    return False


def read_rows(path: Path) -> Iterator[tuple[int, ...] | None]:
    """Every record of a log, None for a damaged record; a record that is being appended is left out.

    Raises `LiveError` when the file is no step log.
    """
    read_about(path)
    with _reading(path) as file:
        file.seek(shared_memory_file.HEADER)
        while len(raw := file.read(SIZE)) == SIZE:
            yield unpack(raw)


def last_index(path: Path) -> int:
    """Number of the last whole record; 0 without a record.

    A process killed between two files leaves the new file empty or absent: then the file set aside is read.
    """
    return _last_in(path) or _last_in(path.with_name(path.name + ".1"))


def _last_in(path: Path) -> int:
    try:
        size = path.stat().st_size
        if size < shared_memory_file.HEADER + SIZE:
            return 0
        with _reading(path) as file:
            file.seek(shared_memory_file.HEADER + ((size - shared_memory_file.HEADER) // SIZE - 1) * SIZE)
            row = unpack(file.read(SIZE))
    except OSError:
        return 0
    return row[0] if row else 0
