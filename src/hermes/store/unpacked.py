"""Archives and packed files, unpacked into the cache: bounded, never outside of it, regular files alone.

Who packed an archive is not trusted: a few bytes may unpack to as many as a disk holds, and names and links may lead
out of the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from hermes.base.errors import Diagnostic, InputError
from hermes.base.limits import ARCHIVE_ENTRIES, ARCHIVE_RATIO, most_entries, most_unpacked
from hermes.store import messages
from hermes.store.cache import Cache
from hermes.store.files import SKIPPED
from hermes.store.index import state_of
from hermes.store.private import private_folder

FOLDER = "unpacked"
_NOTES = "notes.json"
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_SUFFIXES = (*_TAR, ".zip")
_BLOCK = 1 << 20
_MIN_FREE_DISK = 1 << 30
_LONGEST_HEADER = 1 << 20
_DEEPEST = 24
_MOST_LOOKED = 500
_FURTHEST_LOOK = 512 << 20
_DAMAGE = (
    EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError,
    ValueError, TypeError, LookupError, OverflowError, struct.error,
)  # fmt: skip
"""What the libraries raise for archives that are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What lay packed: the folder that holds it now, what to name to the user in its place, and what was left out."""

    root: Path
    shown: str
    notes: tuple[Diagnostic, ...] = ()

    def told(self, text: str) -> str:
        """A text with the user's name in place of the folder here."""
        return text.replace(str(self.root), self.shown)


def is_archive(path: Path) -> bool:
    """Whether a file is one that holds files, by its name."""
    return path.name.lower().endswith(_SUFFIXES)


def unpack(path: Path, cache: Cache, shown: str = "") -> Unpacked:
    """The files of an archive, unpacked unless they were before.

    Raises `InputError` when nothing of it can be read, or it would grow beyond what profiles do.
    """
    shown = shown or str(path)
    reader = _of_zip if path.name.lower().endswith(".zip") else _of_tar
    return _made(path, cache, shown, lambda budget, folder: _extract(reader(path), budget, folder), (path,))


def holds(path: Path, wanted: Callable[[str], bool]) -> bool:
    """Whether an archive holds a file of a name that is wanted, as its first names tell: it may be a data set."""
    try:
        if path.name.lower().endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                return any(wanted(PurePosixPath(name).name) for name in archive.namelist()[: ARCHIVE_ENTRIES.now()])
        for member, _ in itertools.islice(_members(path, _FURTHEST_LOOK), _MOST_LOOKED):
            if member.isreg() and wanted(PurePosixPath(member.name).name):
                return True
    except _TooMuchError:
        return False
    except (*_DAMAGE, OSError):
        # What cannot be listed is told as broken when it is unpacked.
        return True
    return False


def stage(root: Path, packed: Sequence[Path], plain: Sequence[Path], cache: Cache) -> Unpacked:
    """A folder with each of these packed files (`kernel_details.csv.gz`) unpacked, and links to those that are not."""

    def fill(budget: _Budget, folder: Path) -> None:
        for path in plain:
            there = folder / path.relative_to(root)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(path.absolute())
        for path in packed:
            there = (folder / path.relative_to(root)).with_suffix("")
            there.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as raw, there.open("wb") as out:
                budget.copied(_gunzipped(raw), out, path.name)

    return _made(root, cache, str(root), fill, (*packed, *plain))


@dataclass(slots=True, kw_only=True)
class _Budget:
    """How much may still be written, and what was refused."""

    shown: str
    packed: int
    disk: Path
    written: int = 0
    files: int = 0
    entries: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)
    damage: str = ""

    def entry(self, count: int = 1) -> None:
        """Count entries, also those that are not written; raises `InputError` when there are too many."""
        self.entries += count
        if self.entries > most_entries(self.packed):
            raise ARCHIVE_ENTRIES.exceeded(
                "the archive is not unpacked: it holds too many files and folders for its size", where=self.shown,
                most=most_entries(self.packed),
            )  # fmt: skip

    def copied(self, blocks: Iterator[bytes], out: IO[bytes], name: str) -> None:
        """Write the blocks; raises `InputError` when there are too many, and notes damage."""
        self.files += 1
        try:
            for block in blocks:
                self.written += len(block)
                if self.written > most_unpacked(self.packed):
                    raise _TooMuchError
                if shutil.disk_usage(self.disk).free < _MIN_FREE_DISK:
                    raise self.full()
                out.write(block)
        except _DAMAGE as broken:
            self.damage = self.damage or f"{name}: {broken}"

    def full(self) -> InputError:
        return InputError(
            "the archive is not unpacked: unpacking it would fill the disk", where=self.shown, lost="everything in it",
            hint="free some space, or set HERMES_CACHE_DIR to a folder on another disk",
        )  # fmt: skip

    def refuse(self, why: str, name: str) -> None:
        self.refused.setdefault(why, []).append(name)

    def notes(self) -> tuple[Diagnostic, ...]:
        found = [
            Diagnostic(
                level="degraded", message=messages.entries_refused(n=len(names), why=why, names=_listed(names)),
                where=self.shown, lost=messages.LOST_ENTRIES, hint=messages.DO_PACK_FILES,
            )
            for why, names in self.refused.items()
        ]  # fmt: skip
        if self.damage:
            found.append(
                Diagnostic(
                    level="degraded", message=messages.archive_damaged(where=_listed([self.damage])),
                    where=self.shown, lost=messages.LOST_BEHIND, hint=messages.DO_COPY_AGAIN,
                )
            )  # fmt: skip
        return tuple(found)


def _made(
    path: Path, cache: Cache, shown: str, fill: Callable[[_Budget, Path], None], files: Sequence[Path]
) -> Unpacked:
    states = "\0".join([str(path.absolute()), *(f"{one} {state_of(one)}" for one in files)])
    key = hashlib.sha256(states.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    name = path.name
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    root = cache.root / FOLDER / key / (name or "archive")
    if root.is_dir():
        return Unpacked(root=root, shown=shown, notes=_kept(root.parent / _NOTES))
    with cache.making() as aside:
        budget = _Budget(shown=shown, packed=sum(one.stat().st_size for one in files), disk=aside)
        folder = aside / "files"
        folder.mkdir()
        try:
            fill(budget, folder)
        except _TooMuchError as large:
            what = "the archive is not unpacked: it unpacks to too many bytes"
            raise ARCHIVE_RATIO.exceeded(what, where=shown) from large
        if not budget.files:
            why = f" ({_listed([budget.damage])})" if budget.damage else ""
            raise InputError(
                f"no file can be unpacked from it{why}", where=shown, lost="everything in it",
                hint="is it whole? Copy it again from the job",
            )  # fmt: skip
        private_folder(root.parent)
        said = json.dumps([note.document() for note in budget.notes()], ensure_ascii=False)
        (root.parent / _NOTES).write_text(said, "utf-8", errors="replace")
        with contextlib.suppress(OSError):
            # Somebody else may have made the same meanwhile.
            folder.rename(root)
        return Unpacked(root=root, shown=shown, notes=budget.notes())


def _kept(path: Path) -> tuple[Diagnostic, ...]:
    try:
        return tuple(Diagnostic.of_document(note) for note in json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


_Entry = tuple[str, str, Callable[[], IO[bytes] | None]]
"""A name, why it is refused (nothing: it is not), and how to open it."""
_FOLDER, _SPECIAL = "folder", "links, devices or sparse"
"""Kinds of entries that are not written; folders are made when a file needs them."""


def _extract(entries: Iterator[_Entry], budget: _Budget, folder: Path) -> None:
    try:
        for name, why, opened in entries:
            budget.entry()
            if why == _FOLDER:
                continue
            parts = _parts(name)
            if why or parts is None:
                budget.refuse(why or "outside of its folder", name)
            elif parts and not SKIPPED.intersection(parts[:-1]):
                _write(budget, folder.joinpath(*parts), opened, name)
    except _DAMAGE as broken:
        budget.damage = budget.damage or str(broken)


def _write(budget: _Budget, there: Path, opened: Callable[[], IO[bytes] | None], name: str) -> None:
    try:
        missing = next((count for count, above in enumerate(there.parents) if above.is_dir()), 0)
        budget.entry(missing)
        if missing:
            there.parent.mkdir(parents=True, exist_ok=True)
        with opened() or io.BytesIO() as raw, there.open("wb") as out:
            budget.copied(iter(lambda: raw.read(_BLOCK), b""), out, name)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        budget.refuse("files where others have folders", name)
    except (OSError, UnicodeError, ValueError) as refused:
        if isinstance(refused, OSError) and refused.errno is not None and refused.errno not in _OF_NAMES:
            raise
        budget.refuse("of a name that no file can have", name)


_OF_NAMES = (22, 36)
"""`EINVAL`, `ENAMETOOLONG`."""


def _parts(name: str) -> tuple[str, ...] | None:
    """Where an entry goes below its folder; None when that leads out of it."""
    plain = PurePosixPath(name.replace("\\", "/"))
    parts = tuple(part for part in plain.parts if part != ".")
    bad = plain.is_absolute() or ".." in parts or "\0" in name or any(":" in part for part in parts[:1])
    return None if bad or len(parts) > _DEEPEST else parts


_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip


class _TooMuchError(Exception):
    """An archive unpacks to more bytes than are allowed."""


class _Member(tarfile.TarInfo):
    """A header whose extension, which the library reads into memory, is bounded.

    Maps of sparse files are not read: their length is what the header says, and such files are refused anyway.
    """

    def _proc_gnusparse_10(self, member: tarfile.TarInfo, *_: object) -> None:
        member.sparse = b""

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10

    def _proc_sparse(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        raise tarfile.ReadError("it holds a sparse file in the old form of GNU; pack regular files")

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENSIONS and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError("a header is longer than any path")
        made: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return made


class _Bounded:
    """The unpacked bytes of an archive, up to so many; also those that are only passed over have to be unpacked."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream = stream
        self._most = most
        self.tell, self.close = stream.tell, stream.close

    def read(self, size: int) -> bytes:
        self._refuse(self.tell() + size)
        read: bytes = self._stream.read(size)
        return read

    def seek(self, place: int) -> int:
        self._refuse(place)
        there: int = self._stream.seek(place)
        return there

    def _refuse(self, place: int) -> None:
        if place > self._most:
            raise _TooMuchError


def _members(path: Path, most_bytes: int) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    """The entries of an archive, one after the other, in memory that does not grow with them."""
    with tarfile.open(path, "r|*", tarinfo=_Member) as archive:
        archive.fileobj = _Bounded(archive.fileobj, most_bytes)  # type: ignore[assignment]
        while (member := archive.next()) is not None:
            yield member, archive
            archive.members.clear()  # type: ignore[attr-defined]


def _of_tar(path: Path) -> Iterator[_Entry]:
    for member, archive in _members(path, most_unpacked(path.stat().st_size)):
        why = _FOLDER if member.isdir() else "" if member.isreg() and not member.issparse() else _SPECIAL
        yield member.name, why, lambda member=member, archive=archive: archive.extractfile(member)  # type: ignore[misc]


def _of_zip(path: Path) -> Iterator[_Entry]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            why = _FOLDER if entry.is_dir() else _SPECIAL if kind not in (0, stat.S_IFREG) else ""
            why = "encrypted" if entry.flag_bits & 1 else why
            yield entry.filename, why, lambda entry=entry: archive.open(entry)  # type: ignore[misc]


def _gunzipped(raw: IO[bytes]) -> Iterator[bytes]:
    """What a gzip file holds, up to the damage if there is one."""
    engine = zlib.decompressobj(wbits=31)
    packed = raw.read(_BLOCK)
    while packed:
        yield engine.decompress(packed, _BLOCK)
        if engine.eof:
            packed = (engine.unused_data or raw.read(_BLOCK)).lstrip(b"\0")
            engine = zlib.decompressobj(wbits=31)
            if not packed:
                return
        else:
            packed = engine.unconsumed_tail or raw.read(_BLOCK)
    raise EOFError("it ends before its end mark")


def _listed(names: Sequence[str]) -> str:
    shown = [name.encode("utf-8", "replace").decode()[:120] for name in names[:3]]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
