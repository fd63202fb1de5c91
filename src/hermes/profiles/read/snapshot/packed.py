"""Opens a file that may be packed with gzip as a stream of bounded length, without unpacking it to disk or memory."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from hermes.base.limits import ARCHIVE_RATIO, most_unpacked

DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)
"""What a damaged or cut gzip file raises while it is read."""
_GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The plain content of a file; a packed one raises one of `DAMAGE`, or `InputError` if it grows too large."""
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as file, io.BufferedReader(_Bounded(file, path)) as plain:
            yield plain


class _Bounded(io.RawIOBase):
    """The unpacked bytes of a gzip file, up to the limit for files of its size."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self._file = file
        self._path = path
        self._most = most_unpacked(path.stat().st_size)
        self._place = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        self._place += len(block)
        if self._place > self._most:
            raise ARCHIVE_RATIO.exceeded("the file is not read: it unpacks to too many bytes", where=str(self._path))
        buffer[: len(block)] = block
        return len(block)
