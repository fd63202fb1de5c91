"""Shows DuckDB a stretch of one file under a plain name.

A Kineto file holds its events inside an object; DuckDB reads arrays only. And a user's path may hold `*`, `?` or `[`,
which DuckDB would take for a pattern.
"""

from __future__ import annotations

import datetime
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
from fsspec.spec import AbstractFileSystem


def slice_url(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    start: int = 0,
    end: int | None = None,
    spellings: Mapping[str, str] | None = None,
) -> str:
    """The name under which `con` can read the bytes `[start, end)` of the file; one file at a time.

    Each JSON key in `spellings` reads as its value there, which must be equally long.
    """
    if "slice" in con.list_filesystems():
        con.unregister_filesystem("slice")
    con.register_filesystem(_SliceFileSystem(path, start, path.stat().st_size if end is None else end, spellings or {}))
    return f"slice://{path.suffix.removeprefix('.') or 'file'}"


class _SliceFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The file system that holds one stretch of one file."""

    protocol = "slice"
    cachable = False

    def __init__(self, path: Path, start: int, end: int, spellings: Mapping[str, str]) -> None:
        super().__init__()
        self._stretch = (path, start, end, spellings)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Size and type, as fsspec asks for them."""
        start, end = self._stretch[1:3]
        return {"name": path, "size": end - start, "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        """The one file."""
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        """Always."""
        return True

    def modified(self, path: str) -> datetime.datetime:
        """A fixed moment: the slice is made for one read."""
        return datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _Slice:
        return _Slice(*self._stretch)


class _Slice(io.RawIOBase):
    """A read-only stretch `[start, end)` of a file."""

    def __init__(self, path: Path, start: int, end: int, spellings: Mapping[str, str]) -> None:
        self._raw = path.open("rb", buffering=0)
        self._start, self.size = start, end - start
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
        left = max(0, self.size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        self._raw.seek(self._start + self._at)
        block = self._raw.read(length) or b""
        if self._spellings and block:
            block = self._mended(self._spelt(block))
        self._at += len(block)
        return block

    def _mended(self, block: bytes) -> bytes:
        """The block with the keys that lie across its edges spelt alike; both neighbours of an edge see the same."""
        here, edge = self._start + self._at, self._margin
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
            text = text.replace(other, usual)
        return text

    def close(self) -> None:
        self._raw.close()
        super().close()
