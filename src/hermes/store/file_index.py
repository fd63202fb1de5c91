"""An index of file digests by file state: unchanged files are not read again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.base.write_atomic import write_atomic
from hermes.store.private_folders import private_folder

State = tuple[int, int, int, int, int]
"""The state of a file: size, time of the last change of content, of content or inode (both in ns), inode, device."""
FOLDER = "hashed"
_MOST_FILES = 20_000
MARGIN_NS = 2_000_000_000
"""No file system that holds profiles has coarser time stamps than this many nanoseconds (FAT: two seconds)."""


def file_state(path: Path) -> State:
    """The present state of a file; raises `OSError`.

    The file is opened for that: a network file system then asks its server, and may otherwise answer from memory.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        now = os.fstat(handle)
    finally:
        os.close(handle)
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_dev


class Index:
    """The digests of files below some paths, stored in the cache between commands.

    Git's index works the same way, with the same care. A file that changed shortly before the hash may change again
    with the same time stamp, so its digest is not stored. The change time of the inode is compared too, which `rsync
    -t`, `tar` and `touch` cannot set.
    """

    def __init__(self, root: Path, paths: Sequence[Path], clock: Callable[[], int] = time.time_ns) -> None:
        self._path = root / FOLDER / f"{_name(sorted(str(path.absolute()) for path in paths))}.json"
        self._clock = clock
        self._kept = _read(self._path)
        self._new: dict[str, tuple[State, list[str]]] = {}

    def known(self, path: Path, state: State) -> list[str] | None:
        """The digests of the file's pieces, if it was hashed in this state."""
        name = str(path.absolute())
        found = self._new.get(name) or self._kept.get(name)
        return found[1] if found and found[0] == state else None

    def settled(self, state: State) -> bool:
        """Whether a file in this state, hashed from now on, cannot change without getting another state."""
        return _settled(state, self._clock())

    def note(self, path: Path, state: State, pieces: list[str]) -> None:
        """Store the digests of a file that was `settled` before it was hashed."""
        self._new[str(path.absolute())] = (state, pieces)

    def save(self) -> None:
        """Write new digests to the cache."""
        if all(self._kept.get(name) == found for name, found in self._new.items()):
            return
        self._kept = {name: said for name, said in (self._kept | self._new).items() if Path(name).exists()}
        self._new = {}
        _write(self._path, json.dumps(self._kept))


def _read(path: Path) -> dict[str, tuple[State, list[str]]]:
    """The stored digests; empty if the index file cannot be read or has another form."""
    try:
        whole = json.loads(path.read_bytes())
        return {name: (_state(state), [str(piece) for piece in pieces]) for name, (state, pieces) in whole.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _state(listed: Sequence[int]) -> State:
    size, changed, touched, inode, device = map(int, listed)
    return size, changed, touched, inode, device


class FilesRecord:
    """A result made from all files below some paths, stored with the files' states: if unchanged, no file need be read.

    `said` holds whatever else the result depends on. The result is valid only while the same files have the same
    states, and all files were settled when the result was made.
    """

    def __init__(self, root: Path, *said: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._path = root / FOLDER / f"of-{_name(said)}.json"
        self._clock = clock

    def states(self, files: Sequence[Path]) -> dict[str, State] | None:
        """The states of the files now, to be taken before reading; None where one of the states is not reliable."""
        if len(files) > _MOST_FILES:
            return None
        try:
            found = {str(path.absolute()): file_state(path) for path in files}
        except OSError:
            return None
        now = self._clock()
        return found if all(_settled(state, now) for state in found.values()) else None

    def recall(self, states: dict[str, State] | None) -> str | None:
        """The stored result for files in these states; None if there is none."""
        try:
            said, listed = json.loads(self._path.read_bytes())
            kept = {name: _state(state) for name, state in listed.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return str(said) if states is not None and kept == states else None

    def keep(self, states: dict[str, State] | None, said: str) -> None:
        """Store the result made from the files, whose states were taken before they were read."""
        if states is not None:
            _write(self._path, json.dumps([said, states]))


def _settled(state: State, now_ns: int) -> bool:
    """Whether content and inode last changed so long ago that another change would get another time stamp."""
    return max(state[1], state[2]) + MARGIN_NS <= now_ns


def _name(said: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def _write(path: Path, text: str) -> None:
    """Write a file of the cache; a failure is ignored, since a missing cache only costs time."""
    with contextlib.suppress(OSError):
        private_folder(path.parent)
        with write_atomic(path) as file:
            file.write(text.encode("ascii"))
