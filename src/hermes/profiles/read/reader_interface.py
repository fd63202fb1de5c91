"""The interface of readers: the captures they find among files, and the promise to write tables from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from hermes.base.errors import Diagnostic
from hermes.base.units import whole_number
from hermes.profiles.read.table_sink import Sink


def legible(name: str) -> str:
    """The name of a file or folder as valid UTF-8 text: a name may hold any bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_RANK_IN_NAME = re.compile(r"(?:^|[^A-Za-z])rank[-_]?(\d{1,7})(?!\d)|(?:^|[^A-Za-z])worker[-_]?(\d{1,7})(?=\.)", re.I)


def rank_of_name(path: Path) -> int | None:
    """The rank in the name of a file, or in the name of its folder; None if neither has one."""
    for name in (path.name, path.parent.name):
        found = _RANK_IN_NAME.search(name)
        if found:
            return whole_number(found.group(1) or found.group(2))
    return None


def without_rank(stem: str) -> str:
    """A name without the part that tells the rank."""
    return _RANK_IN_NAME.sub("", stem).strip("-_. ")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSource:
    """One capture of one rank, found but not read.

    `files` are all files from which the tables will be made: the cache is keyed by their content. `rank` is None if no
    file names it. `capture` tells several captures of one rank apart (time stamp or folder name, sortable). `aside` are
    files of the capture that another tool must read.
    """

    reader: str
    format: str
    root: Path
    files: tuple[Path, ...]
    rank: int | None
    capture: str
    notes: tuple[Diagnostic, ...] = field(default=())
    process: str = ""
    """Host and process, if the name of a file tells them."""
    world: int | None = None
    """The number of ranks of the job, if the head of a file tells it."""
    aside: tuple[Path, ...] = ()


class Reader(Protocol):
    """The reader of one format: it finds captures of the format among files and turns a capture into tables."""

    name: ClassVar[str]
    version: ClassVar[int]
    """The version of the reader, part of the cache key: raise it when the tables of an unchanged input change."""

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """The captures among these files; reads only the heads of files and never raises on junk."""
        ...

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source to read, after an export if the capture needs one; `tell` is called before a long export."""
        ...

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write the tables of one capture to `sink`.

        Raises `TraceFormatError` if nothing at all can be read; a part that cannot be read becomes
        `sink.note("degraded", …)`.
        """
        ...
