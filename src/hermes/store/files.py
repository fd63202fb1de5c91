"""The files under what a user hands over, and the fingerprint of their content."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import InputChangedError, InputError
from hermes.store.index import Index, State, state_of

_MAX_DEPTH = 12
_PIECE = 64 << 20
"""Files are hashed in pieces of this size, which several threads share."""
_BLOCK = 4 << 20
_AHEAD = 1 << 30
"""Of a folder that holds more than these bytes nothing is hashed before it is known which of its files are read."""
_TABLES = frozenset({".json", ".csv", ".db", ".gz"})
SKIPPED = frozenset({"logs", ".git", "__pycache__", "node_modules", "mindstudio_profiler_log"})
"""Folders that hold no profile, however many files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Content hash of a list of files, and what `unchanged` needs to see that they were not touched since."""

    digest: str
    states: tuple[tuple[Path, State], ...]


def walk(paths: Sequence[Path]) -> list[Path]:
    """All regular files below the paths, sorted, each once; symbolic links are followed, loops are not.

    Of several ways to a file (a linked folder, a relative and an absolute name) the one without links is taken.
    Raises `InputError` when a path does not exist, or a folder below it may not be read.
    """
    found: set[Path] = set()
    for path in paths:
        try:
            found.update(_under(path))
        except PermissionError as refused:
            raise InputError(
                "the folder may not be read",
                where=str(refused.filename or path),
                lost="everything in it",
                hint="check its permissions",
            ) from refused
    return _once(found)


def _under(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError("no such file or folder", where=str(path), hint="check the path")
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError("neither a file nor a folder", where=str(path), hint="check the path")
    return _below(path, frozenset(), 0)


def _once(found: set[Path]) -> list[Path]:
    real = {folder: Path(os.path.realpath(folder)) for folder in {path.parent for path in found}}
    once: dict[Path, Path] = {}
    for path in sorted(found, key=lambda path: (real[path.parent] != path.parent.absolute(), path)):
        once.setdefault(real[path.parent] / path.name, path)
    return sorted(once.values())


def _below(folder: Path, above: frozenset[tuple[int, int]], depth: int) -> list[Path]:
    here = folder.stat()
    identity = (here.st_dev, here.st_ino)
    # A folder that is its own ancestor is a loop of links.
    if identity in above or depth > _MAX_DEPTH:
        return []
    files: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    if entry.name not in SKIPPED:
                        files.extend(_below(Path(entry.path), above | {identity}, depth + 1))
                elif entry.is_file():
                    files.append(Path(entry.path))
            except PermissionError:
                raise
            except OSError:
                # A link that leads nowhere, or round in a circle.
                continue
    return files


class Digests:
    """Works out the SHA-256 of files in threads of its own, from the moment on that a file is named to it.

    A command names the files and folders that it was given before it loads its libraries, which takes as long as
    hashing half a gigabyte. What the index knows is not read. A context: what is not begun when it ends is dropped.
    """

    def __init__(self, paths: Sequence[Path] = (), index: Index | None = None) -> None:
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._begun: dict[Path, tuple[State, list[Future[str]]]] = {}
        self._known: dict[Path, tuple[State, list[str]]] = {}
        self._settled: set[Path] = set()
        self._index = index
        for path in paths:
            with contextlib.suppress(OSError):
                for file in [path] if path.is_file() else _few(path):
                    self.begin(file)

    def begin(self, path: Path) -> None:
        """Start on a file that was not named before; raises `OSError` when there is none."""
        if path in self._begun or path in self._known:
            return
        state = state_of(path)
        known = self._index.known(path, state) if self._index else None
        if known is not None:
            self._known[path] = (state, known)
            return
        if self._index and self._index.settled(state):
            self._settled.add(path)
        starts = range(0, max(state[0], 1), _PIECE)
        self._begun[path] = (state, [self._pool.submit(_digest, path, start) for start in starts])

    def of(self, path: Path) -> tuple[State, list[str]]:
        """The state of a file when it was named, and the digests of its pieces; raises `OSError`."""
        self.begin(path)
        if path in self._known:
            return self._known[path]
        state, futures = self._begun[path]
        pieces = [piece.result() for piece in futures]
        # What changed while it was hashed has a digest of no state.
        if self._index and path in self._settled and state_of(path) == state:
            self._index.note(path, state, pieces)
        return state, pieces

    def __enter__(self) -> Digests:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        if self._index:
            self._index.save()


def _few(folder: Path) -> list[Path]:
    """The files below a folder that may hold a profile; none where they are too many to hash on suspicion."""
    files = [path for path in _below(folder, frozenset(), 0) if path.suffix in _TABLES]
    return files if sum(path.stat().st_size for path in files) <= _AHEAD else []


def fingerprint(files: Sequence[Path], *salt: str, digests: Digests) -> Fingerprint:
    """SHA-256 over the salt and the name, size and content of each file.

    Raises `InputError` when a file may not be read.
    """
    whole = hashlib.sha256("\0".join(salt).encode("utf-8", "surrogatepass"))
    states: list[tuple[Path, State]] = []
    try:
        for path in files:
            digests.begin(path)
        for path in files:
            state, pieces = digests.of(path)
            states.append((path, state))
            for number, digest in enumerate(pieces):
                whole.update(f"\0{path}\0{number * _PIECE}\0{digest}".encode("utf-8", "surrogatepass"))
    except OSError as refused:
        raise InputError(
            f"cannot be read ({refused.strerror or refused})",
            where=str(refused.filename),
            lost="the file",
            hint="check its permissions",
        ) from refused
    return Fingerprint(digest=whole.hexdigest(), states=tuple(states))


def refuse_changed(before: Fingerprint) -> None:
    """Raise `InputChangedError` if a file was written, replaced or removed since its fingerprint was taken."""
    for path, state in before.states:
        try:
            same = _same(state_of(path), state)
        except OSError:
            same = False
        if not same:
            raise InputChangedError(
                "the file changed while it was being read",
                where=str(path),
                lost="this capture",
                hint="wait until the profiler has finished writing, then run again",
            )


def _same(now: State, then: State) -> bool:
    """Whether the content is as it was; that somebody made a link to a file or changed its mode says nothing of it."""
    return (now[0], now[1], now[3]) == (then[0], then[1], then[3])


def _digest(path: Path, start: int) -> str:
    hashed = hashlib.sha256()
    # Long blocks, and one buffer for all of them: between two of them the thread waits for the interpreter.
    with path.open("rb", buffering=0) as raw:
        block = memoryview(bytearray(max(1, min(_BLOCK, os.fstat(raw.fileno()).st_size - start))))
        raw.seek(start)
        left = _PIECE
        while left and (size := raw.readinto(block[: min(_BLOCK, left)])):
            hashed.update(block[:size])
            left -= size
    return hashed.hexdigest()
