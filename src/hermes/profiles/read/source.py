"""What a reader finds in a folder and what it promises to do with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from hermes.base.errors import Diagnostic
from hermes.profiles.read.sink import Sink


def legible(name: str) -> str:
    """The name of a file or folder as text that UTF-8 can say: it may hold any bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One capture of one rank, found but not read.

    `files` are all files that the tables will come from: the cache is keyed by their content. `rank` is None when no
    file says it. `capture` tells several captures of one rank apart (time stamp or folder name, sortable). `aside` are
    files that belong to it and hold what another tool must read.
    """

    reader: str
    format: str
    root: Path
    files: tuple[Path, ...]
    rank: int | None
    capture: str
    notes: tuple[Diagnostic, ...] = field(default=())
    process: str = ""
    """Host and process, where the name of a file says them."""
    world: int | None = None
    """How many ranks the job has, where the head of a file says it."""
    aside: tuple[Path, ...] = ()


class Reader(Protocol):
    """A format: finds its captures among files and turns one into tables."""

    name: ClassVar[str]
    version: ClassVar[int]
    """Raise it when the tables of an unchanged input change: it is part of the cache key."""

    def claim(self, files: Sequence[Path]) -> list[Source]:
        """The captures among these files; reads no more than the heads of files and never raises on junk."""
        ...

    def prepare(self, source: Source, cache: Path, tell: Callable[[str], None]) -> Source:
        """What to read in its place, where something must be made of it first; `tell` is told before it takes long."""
        ...

    def read(self, source: Source, rank: int, sink: Sink) -> None:
        """Write the tables of one capture to `sink`.

        Raises `TraceFormatError` when nothing at all can be read; a part that cannot be read becomes
        `sink.note("degraded", …)`.
        """
        ...
