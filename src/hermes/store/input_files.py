"""Lists the files of an input folder, and computes the fingerprint of their content."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import Diagnostic, InputChangedError, InputError
from hermes.base.limits import ARCHIVE_RATIO, FILES, HARMLESS_BYTES, most_unpacked
from hermes.base.message import Text
from hermes.store import messages
from hermes.store.file_index import Index, State, file_state

_MAX_DEPTH = 12
_MOST_NOTES = 50
"""The number of skipped folders that are named in notes; further folders are not named."""
_VIEWS = ("/proc", "/sys", "/dev")
_MOST_STRETCHES = 100_000
_PIECE = 64 << 20
"""Files are hashed in pieces of this size in bytes, which several threads share."""
_BLOCK = 4 << 20
_AHEAD = 1 << 30
"""In a folder with more than this many bytes, only files that will be read are hashed."""
_TABLES = frozenset({".json", ".csv", ".db", ".gz"})
SKIPPED = frozenset({"logs", ".git", "__pycache__", "node_modules", "mindstudio_profiler_log"})
"""Names of folders that hold no profiles and are skipped, however many files they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The content hash of a list of files, with the file states that `unchanged` needs to detect later changes."""

    digest: str
    states: tuple[tuple[Path, State], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The files below some paths, with notes about folders that could not be read."""

    files: tuple[Path, ...]
    notes: tuple[Diagnostic, ...]


def walk(paths: Sequence[Path]) -> list[Path]:
    """The regular files below the paths, as `regular_files` finds them, without its notes."""
    return list(regular_files(paths).files)


def regular_files(paths: Sequence[Path]) -> FoundFiles:
    """All regular files below the paths, sorted, each once; symbolic links are followed, each folder is read once.

    If several names lead to a file (a linked folder, a relative and an absolute name), the name without links is taken.
    Raises `InputError` when a path does not exist, all folders are unreadable, or there are more files than `FILES`.
    """
    seen = _Looked()
    for path in paths:
        if not path.exists():
            raise InputError(messages.NO_PATH, where=str(path), hint=messages.DO_CHECK_PATH)
        if path.is_file():
            seen.files.add(path)
        elif path.is_dir():
            seen.below(path)
        else:
            raise InputError(messages.NEITHER, where=str(path), hint=messages.DO_CHECK_PATH)
    if seen.closed and not seen.files:
        first = seen.closed[0]
        raise InputError(first.message, where=first.where, lost=first.lost, hint=first.hint)
    return FoundFiles(files=tuple(_once(seen.files)), notes=tuple([*seen.closed, *seen.passed]))


class _Looked:
    """Collects the files below some paths, and notes the folders that are skipped."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.closed: list[Diagnostic] = []
        self.passed: list[Diagnostic] = []
        self._entries = 0
        self._views = views()

    def below(self, root: Path) -> None:
        """Collect all files below a folder: its own folders first, then targets of links, so no link hides a folder."""
        seen: set[tuple[int, int]] = set()
        waiting, links = deque([(root, 0)]), deque[tuple[Path, int]]()
        while waiting or links:
            folder, depth = waiting.popleft() if waiting else links.popleft()
            try:
                here = folder.stat()
                if (here.st_dev, here.st_ino) in seen or self._passed(folder, here.st_dev, depth):
                    continue
                seen.add((here.st_dev, here.st_ino))
                folders = self._read(root, folder)
            except OSError as refused:
                self._close(folder, refused)
                continue
            for below, linked in folders:
                (links if linked else waiting).append((below, depth + 1))

    def _read(self, root: Path, folder: Path) -> list[tuple[Path, bool]]:
        """Collect the files of one folder; returns its subfolders, and whether each subfolder is a link."""
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        self._entries += len(listed)
        if self._entries > FILES.now():
            raise FILES.exceeded("the folder holds too much", where=str(root))
        found = []
        for entry in listed:
            # A link to nothing, a circular link, or a link into an unreadable folder is neither a file nor a folder.
            with contextlib.suppress(OSError):
                if entry.is_dir():
                    if entry.name not in SKIPPED:
                        found.append((Path(entry.path), entry.is_symlink()))
                elif entry.is_file():
                    self.files.add(Path(entry.path))
        return found

    def _passed(self, folder: Path, device: int, depth: int) -> bool:
        """Whether a folder is skipped, such as one that lies too deep; a skipped folder is noted."""
        if device in self._views:
            self._pass(folder, messages.FOLDER_OF_MACHINE)
        elif depth > _MAX_DEPTH:
            self._pass(folder, messages.folder_too_deep(depth=str(_MAX_DEPTH)))
        else:
            return False
        return True

    def _pass(self, folder: Path, why: Text) -> None:
        if len(self.passed) < _MOST_NOTES:
            self.passed.append(
                Diagnostic(
                    level="degraded", message=why, where=str(folder), lost=messages.LOST_FOLDER,
                    hint=messages.DO_GIVE_PROFILE,
                )
            )  # fmt: skip

    def _close(self, folder: Path, refused: OSError) -> None:
        if len(self.closed) < _MOST_NOTES:
            self.closed.append(
                Diagnostic(
                    level="degraded", message=messages.folder_closed(why=str(refused.strerror)), where=str(folder),
                    lost=messages.LOST_FOLDER, hint=messages.DO_CHECK_PERMISSIONS,
                )
            )  # fmt: skip


def views() -> frozenset[int]:
    """The devices of file systems that show the kernel's state, such as `/proc`: their files may have no end."""
    found = set()
    for path in _VIEWS:
        with contextlib.suppress(OSError):
            if os.path.ismount(path):
                found.add(Path(path).stat().st_dev)
    return frozenset(found)


def _once(found: set[Path]) -> list[Path]:
    real = {folder: Path(os.path.realpath(folder)) for folder in {path.parent for path in found}}
    once: dict[Path, Path] = {}
    for path in sorted(found, key=lambda path: (real[path.parent] != path.parent.absolute(), path)):
        once.setdefault(real[path.parent] / path.name, path)
    return sorted(once.values())


def refuse_hollow(path: Path) -> None:
    """Raise `InputError` for a sparse file of holes: it takes no disk space, but time and memory as a full file does.

    The limit is the same as for archives. Raises `OSError` for a file that cannot be opened.
    """
    if path.stat().st_size <= HARMLESS_BYTES:
        return
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, held = os.fstat(file).st_size, _held_bytes(file)
    finally:
        os.close(file)
    if size > most_unpacked(held):
        raise ARCHIVE_RATIO.exceeded(
            f"the file is {size:,} bytes long, and holds {held:,} of them",
            where=str(path),
            lost="the file",
            needs=size // max(held, 1) + 1,
        )


def _held_bytes(file: int) -> int:
    """The bytes of a file that are not holes, as far as its file system tells."""
    held = place = 0
    for _ in range(_MOST_STRETCHES):
        try:
            begin = os.lseek(file, place, os.SEEK_DATA)
        except OSError:
            return held  # only a hole is left
        place = os.lseek(file, begin, os.SEEK_HOLE)
        held += place - begin
    return held + os.fstat(file).st_size - place


class Digests:
    """Computes the SHA-256 of files in its own threads, from the moment a file is named.

    A command names its files and folders before it loads its libraries, because loading takes as long as hashing half a
    gigabyte. A file whose digest is in the index is not read. At the end of the `with` block, hashing that has not
    begun is cancelled.
    """

    def __init__(self, paths: Sequence[Path] = (), index: Index | None = None) -> None:
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._begun: dict[Path, tuple[State, list[Future[str]]]] = {}
        self._known: dict[Path, tuple[State, list[str]]] = {}
        self._settled: set[Path] = set()
        self._index = index
        for path in paths:
            with contextlib.suppress(OSError, InputError):
                for file in [path] if path.is_file() else _few(path):
                    self.begin(file)

    def begin(self, path: Path) -> None:
        """Start to hash a file that was not named before; raises `OSError` if missing, `InputError` for holes."""
        if path in self._begun or path in self._known:
            return
        state = file_state(path)
        refuse_hollow(path)
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
        # The digest of a file that changed during the hashing belongs to no state.
        if self._index and path in self._settled and file_state(path) == state:
            self._index.note(path, state, pieces)
        return state, pieces

    def __enter__(self) -> Digests:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        if self._index:
            self._index.save()


def _few(folder: Path) -> list[Path]:
    """The files below a folder that may hold a profile; empty if they are too many to hash before they are needed."""
    files = [path for path in walk([folder]) if path.suffix in _TABLES]
    return files if sum(path.stat().st_size for path in files) <= _AHEAD else []


def fingerprint(files: Sequence[Path], *salt: str, digests: Digests) -> Fingerprint:
    """The SHA-256 over a salt and the name, size and content of each file.

    Raises `InputError` when a file cannot be read.
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
            messages.unreadable(why=refused.strerror or str(refused)),
            where=str(refused.filename),
            lost=messages.LOST_FILE,
            hint=messages.DO_CHECK_PERMISSIONS,
        ) from refused
    return Fingerprint(digest=whole.hexdigest(), states=tuple(states))


def refuse_changed(before: Fingerprint) -> None:
    """Raise `InputChangedError` if a file was written, replaced or removed since its fingerprint was taken."""
    for path, state in before.states:
        try:
            same = _same(file_state(path), state)
        except OSError:
            same = False
        if not same:
            raise InputChangedError(
                messages.CHANGED,
                where=str(path),
                lost=messages.LOST_CAPTURE,
                hint=messages.DO_WAIT_FOR_PROFILER,
            )


def _same(now: State, then: State) -> bool:
    """Whether a file has the same content in both states; a changed mode or a new link to the file does not count."""
    return (now[0], now[1], now[3]) == (then[0], then[1], then[3])


def _digest(path: Path, start: int) -> str:
    hashed = hashlib.sha256()
    # Blocks are long, and share one buffer: between two blocks the thread waits for the interpreter lock.
    with path.open("rb", buffering=0) as raw:
        block = memoryview(bytearray(max(1, min(_BLOCK, os.fstat(raw.fileno()).st_size - start))))
        raw.seek(start)
        left = _PIECE
        while left and (size := raw.readinto(block[: min(_BLOCK, left)])):
            hashed.update(block[:size])
            left -= size
    return hashed.hexdigest()
