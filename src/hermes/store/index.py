"""What was hashed before: digests of files by their state, so that what nobody touched is not read again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.base.write_atomic import write_atomic
from hermes.store.private import private_folder

State = tuple[int, int, int, int, int]
"""Size, time of the last change of the content, the same of content or inode (both in ns), inode, device."""
FOLDER = "hashed"
_MOST_FILES = 20_000
MARGIN_NS = 2_000_000_000
"""No file system that profiles lie on tells times more coarsely (FAT: two seconds)."""


def state_of(path: Path) -> State:
    """The state of a file now; raises `OSError`.

    It is opened for that: a network file system asks its server then, and may answer from memory else.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        now = os.fstat(handle)
    finally:
        os.close(handle)
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_dev


class Index:
    """The digests of files below some paths, kept in the cache between commands.

    Git's index does the same, with the same care: a file that was changed shortly before it was hashed may be changed
    again without another time stamp, so its digest is not kept. The time of change of the inode is compared too, which
    `rsync -t`, `tar` and `touch` cannot set.
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
        """Whether a file in this state, hashed from now on, cannot change without another state."""
        return _settled(state, self._clock())

    def note(self, path: Path, state: State, pieces: list[str]) -> None:
        """Keep the digests of a file that was `settled` before it was hashed."""
        self._new[str(path.absolute())] = (state, pieces)

    def save(self) -> None:
        """Write what is new."""
        if all(self._kept.get(name) == found for name, found in self._new.items()):
            return
        self._kept = {name: said for name, said in (self._kept | self._new).items() if Path(name).exists()}
        self._new = {}
        _write(self._path, json.dumps(self._kept))


def _read(path: Path) -> dict[str, tuple[State, list[str]]]:
    """What was kept; nothing where it cannot be read, and nothing of another form."""
    try:
        whole = json.loads(path.read_bytes())
        return {name: (_state(state), [str(piece) for piece in pieces]) for name, (state, pieces) in whole.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _state(listed: Sequence[int]) -> State:
    size, changed, touched, inode, device = map(int, listed)
    return size, changed, touched, inode, device


class Record:
    """What was made of all files below some paths, kept by the states of the files: nothing of them need be read.

    `said` tells apart what else the result depends on. It is good only while the very same files are there in the very
    same states, and all of them were settled when it was made.
    """

    def __init__(self, root: Path, *said: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._path = root / FOLDER / f"of-{_name(said)}.json"
        self._clock = clock

    def states(self, files: Sequence[Path]) -> dict[str, State] | None:
        """Those of the files now, to be taken before they are read; None where one of them cannot be relied on."""
        if len(files) > _MOST_FILES:
            return None
        try:
            found = {str(path.absolute()): state_of(path) for path in files}
        except OSError:
            return None
        now = self._clock()
        return found if all(_settled(state, now) for state in found.values()) else None

    def recall(self, states: dict[str, State] | None) -> str | None:
        """What was kept for the files in these states."""
        try:
            said, listed = json.loads(self._path.read_bytes())
            kept = {name: _state(state) for name, state in listed.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return str(said) if states is not None and kept == states else None

    def keep(self, states: dict[str, State] | None, said: str) -> None:
        """Keep what was made of the files, whose states were taken before they were read."""
        if states is not None:
            _write(self._path, json.dumps([said, states]))


def _settled(state: State, now_ns: int) -> bool:
    """Whether the last change of content and inode is so long ago that another would have another time."""
    return max(state[1], state[2]) + MARGIN_NS <= now_ns


def _name(said: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def _write(path: Path, text: str) -> None:
    """A cache that may not be written is no error here, as it only costs time."""
    with contextlib.suppress(OSError):
        private_folder(path.parent)
        with write_atomic(path) as file:
            file.write(text.encode("ascii"))
