"""Shows DuckDB a byte range of one file under a plain name.

A Kineto file holds its events inside an object; DuckDB reads only arrays. And a user's path may hold `*`, `?` or `[`,
which DuckDB would take for a pattern.
"""

from __future__ import annotations

import ctypes
import datetime
import io
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem

# DuckDB asks for 32 MiB at a time and copies the block twice: blocks that fit the processor's cache halve the time.
_BLOCK = 1 << 20


def slice_urls(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    stretches: Sequence[tuple[int, int]],
    spellings: Mapping[str, str] | None = None,
    *,
    bracket: bool = False,
    most: int | None = _BLOCK,
) -> list[str]:
    """The names under which `con` can read these byte ranges `[start, end)` of a file; one file at a time.

    Each JSON key in `spellings` reads as its value there, which must be equally long. With `bracket`, a range of the
    elements of an array reads as an array of its own. One read gives at most `most` bytes, and the JSON reader asks
    again.
    """
    if "slice" in con.list_filesystems():
        con.unregister_filesystem("slice")
    around = (b"[", b"]") if bracket else (b"", b"")
    files = [_Stretch(path=path, start=start, end=end, around=around, most=most) for start, end in stretches]
    con.register_filesystem(_SliceFileSystem(files, spellings or {}))
    kind = path.suffix.removeprefix(".") or "file"
    return [f"slice://{number}.{kind}" for number in range(len(files))]


def slice_url(con: duckdb.DuckDBPyConnection, path: Path) -> str:
    """The name under which `con` can read a whole CSV file whatever its name.

    DuckDB's CSV reader takes the result of one read for all there is: reads are as long as asked for.
    """
    return slice_urls(con, path, [(0, path.stat().st_size)], most=None)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """A byte range of a file, with the bytes put before and after it."""

    path: Path
    start: int
    end: int
    around: tuple[bytes, bytes]
    most: int | None

    @property
    def size(self) -> int:
        return self.end - self.start + len(self.around[0]) + len(self.around[1])


class _SliceFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system that holds the byte ranges of one file."""

    protocol = "slice"
    cachable = False

    def __init__(self, files: Sequence[_Stretch], spellings: Mapping[str, str]) -> None:
        super().__init__()
        self._files = files
        self._spellings = spellings

    def _stretch(self, path: str) -> _Stretch:
        return self._files[int(path.rpartition("/")[2].partition(".")[0])]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Size and type of a range, as fsspec asks for them."""
        return {"name": path, "size": self._stretch(path).size, "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        """The path itself: it matches one file."""
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        """Always true: ranges exist as long as the file system."""
        return True

    def modified(self, path: str) -> datetime.datetime:
        """A fixed moment: the range is made for one read."""
        return datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _Slice:
        return _Slice(self._stretch(path), self._spellings)


class _Slice(io.RawIOBase):
    """A read-only byte range of a file, with the bytes put around it."""

    def __init__(self, stretch: _Stretch, spellings: Mapping[str, str]) -> None:
        self._raw = stretch.path.open("rb", buffering=0)
        self._stretch = stretch
        self.size = stretch.size
        self._at = 0
        self._spellings = [(f'"{other}":'.encode(), f'"{usual}":'.encode()) for other, usual in spellings.items()]
        self._margin = max((len(other) - 1 for other, _ in self._spellings), default=0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes; of a large request only the first `most` bytes, as a raw stream may do."""
        left = max(0, self.size - self._at)
        length = left if size is None or size < 0 else min(size, left, self._stretch.most or left)
        first, last = self._stretch.around
        at = self._at - len(first)
        body = self._stretch.end - self._stretch.start
        # A read within the file, as nearly all are, copies nothing.
        if at >= 0 and at + length <= body:
            block = self._body(at, length)
        else:
            inner = self._body(max(at, 0), min(at + length, body) - max(at, 0)) if at < body else b""
            block = first[self._at : self._at + length] + inner
            block += last[max(0, at - body) : max(0, at - body) + length - len(block)] if at + length > body else b""
        self._at += len(block)
        return block

    def _body(self, at: int, length: int) -> bytes:
        """Bytes of the file, from position `at` of the range."""
        here = self._stretch.start + at
        block = os.pread(self._raw.fileno(), max(length, 0), here)
        return self._mended(block, here) if self._spellings and block else block

    def _mended(self, block: bytes, here: int) -> bytes:
        """The block with unified spelling of keys, also across its edges, which both neighbours see alike."""
        block = self._spelt(block)
        edge = self._margin
        before = min(edge, here)
        if len(block) <= 2 * edge:
            wide = self._spelt(os.pread(self._raw.fileno(), before + len(block) + edge, here - before))
            return wide[before : before + len(block)]
        start = os.pread(self._raw.fileno(), before, here - before) + block[:edge]
        end = block[-edge:] + os.pread(self._raw.fileno(), edge, here + len(block))
        if self._spelt(start) != start:
            block = self._spelt(start)[before:] + block[edge:]
        if self._spelt(end) != end:
            block = block[:-edge] + self._spelt(end)[:edge]
        return block

    def _spelt(self, text: bytes) -> bytes:
        for other, usual in self._spellings:
            if _holds(text, other):
                text = text.replace(other, usual)
        return text

    def close(self) -> None:
        self._raw.close()
        super().close()


def _finder() -> Callable[[bytes, bytes], bool]:
    """A test whether bytes contain other bytes: by the C library, three times as fast as Python.

    Python's own test is used if the library has no `memmem`, as on Windows.
    """
    try:
        memmem = ctypes.CDLL(None).memmem
    except (AttributeError, OSError, TypeError):
        return operator.contains
    memmem.restype = ctypes.c_void_p
    memmem.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    return lambda text, part: memmem(text, len(text), part, len(part)) is not None


_holds = _finder()
