"""Unpacks archives and packed files into the cache: bounded in size, never outside the cache, regular files alone.

Archives are not trusted: a few bytes may unpack to more than a disk holds, and names and links may lead out of the
folder.
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
from hermes.base.failure_message import CutShortError, MessageError, reason
from hermes.base.limits import ARCHIVE_ENTRIES, ARCHIVE_RATIO, most_entries, most_unpacked
from hermes.base.message import Message
from hermes.store import messages
from hermes.store.cache import Cache
from hermes.store.file_index import file_state
from hermes.store.input_files import SKIPPED
from hermes.store.private_folders import private_folder

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
_LONGEST_SHOWN = 120
_DAMAGE = (
    EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError,
    ValueError, TypeError, LookupError, OverflowError, struct.error,
)  # fmt: skip
"""The exceptions that libraries raise for damaged archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedArchive:
    """An unpacked archive: the folder that holds its files now, the name to show to the user, and what was left out."""

    root: Path
    shown: str
    notes: tuple[Diagnostic, ...] = ()

    def told(self, text: str) -> str:
        """A text with the archive's name in place of the folder in the cache."""
        return text.replace(str(self.root), self.shown)


def is_archive(path: Path) -> bool:
    """Whether the file's name says that it is an archive of files."""
    return path.name.lower().endswith(_SUFFIXES)


def unpack(path: Path, cache: Cache, shown: str = "") -> UnpackedArchive:
    """The files of an archive, unpacked unless an earlier command unpacked them.

    Raises `InputError` when no file can be unpacked, or the archive would grow beyond any profile's size.
    """
    shown = shown or str(path)
    reader = _of_zip if path.name.lower().endswith(".zip") else _of_tar
    return _made(path, cache, shown, lambda budget, folder: _extract(reader(path), budget, folder), (path,))


def holds(path: Path, wanted: Callable[[str], bool]) -> bool:
    """Whether an archive holds a file with a wanted name, by its first names alone: it may be a data set."""
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
        # An archive that cannot be listed is reported as broken when it is unpacked.
        return True
    return False


def stage(root: Path, packed: Sequence[Path], plain: Sequence[Path], cache: Cache) -> UnpackedArchive:
    """A folder with each of the packed files (`kernel_details.csv.gz`) unpacked, and links to the plain files."""

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
    """The bytes and entries that may still be unpacked, and the entries that were refused."""

    shown: str
    packed: int
    disk: Path
    written: int = 0
    files: int = 0
    entries: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)
    damage: Message | None = None

    def entry(self, count: int = 1) -> None:
        """Count `count` entries, written or not; raises `InputError` when there are too many."""
        self.entries += count
        if self.entries > most_entries(self.packed):
            raise ARCHIVE_ENTRIES.exceeded(
                "the archive is not unpacked: it holds too many files and folders for its size", where=self.shown,
                most=most_entries(self.packed),
            )  # fmt: skip

    def copied(self, blocks: Iterator[bytes], out: IO[bytes], name: str) -> None:
        """Write the blocks to `out`; raises `InputError` when there are too many bytes, and notes damage."""
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
            why = reason(broken, most=_LONGEST_SHOWN)
            self.damage = self.damage or messages.damage_at(name=_short(name), why=why)

    def full(self) -> InputError:
        return InputError(
            messages.UNPACKING_FILLS_DISK, where=self.shown, lost=messages.LOST_FOLDER,
            hint=messages.DO_FREE_SPACE,
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
                    level="degraded", message=messages.archive_damaged(where=self.damage),
                    where=self.shown, lost=messages.LOST_BEHIND, hint=messages.DO_COPY_AGAIN,
                )
            )  # fmt: skip
        return tuple(found)


def _made(
    path: Path, cache: Cache, shown: str, fill: Callable[[_Budget, Path], None], files: Sequence[Path]
) -> UnpackedArchive:
    states = "\0".join([str(path.absolute()), *(f"{one} {file_state(one)}" for one in files)])
    key = hashlib.sha256(states.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    name = path.name
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    root = cache.root / FOLDER / key / (name or "archive")
    if root.is_dir():
        return UnpackedArchive(root=root, shown=shown, notes=_kept(root.parent / _NOTES))
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
            raise InputError(
                messages.nothing_unpacked(why=budget.damage), where=shown, lost=messages.LOST_FOLDER,
                hint=messages.DO_COPY_WHOLE,
            )  # fmt: skip
        private_folder(root.parent)
        said = json.dumps([note.document() for note in budget.notes()], ensure_ascii=False)
        (root.parent / _NOTES).write_text(said, "utf-8", errors="replace")
        with contextlib.suppress(OSError):
            # Another process may have unpacked the same archive meanwhile.
            folder.rename(root)
        return UnpackedArchive(root=root, shown=shown, notes=budget.notes())


def _kept(path: Path) -> tuple[Diagnostic, ...]:
    try:
        return tuple(Diagnostic.of_document(note) for note in json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


_Entry = tuple[str, str, Callable[[], IO[bytes] | None]]
"""An entry of an archive: its name, why it is refused (empty: it is not), and how to open it."""
_FOLDER, _SPECIAL = "folder", "links, devices or sparse"
"""Kinds of entries that are not written; a folder is made when a file needs it."""


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
        budget.damage = budget.damage or (reason(broken, most=_LONGEST_SHOWN) if str(broken) else None)


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
"""Error numbers for names that the file system refuses: `EINVAL`, `ENAMETOOLONG`."""


def _parts(name: str) -> tuple[str, ...] | None:
    """The path of an entry below its folder; None if the name leads out of the folder."""
    plain = PurePosixPath(name.replace("\\", "/"))
    parts = tuple(part for part in plain.parts if part != ".")
    bad = plain.is_absolute() or ".." in parts or "\0" in name or any(":" in part for part in parts[:1])
    return None if bad or len(parts) > _DEEPEST else parts


_EXTENSIONS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip


class _TooMuchError(Exception):
    """Raised when an archive unpacks to more bytes than allowed."""


class _RefusedTarError(MessageError, tarfile.ReadError):
    """An archive has a form that Hermes does not unpack."""


class _Member(tarfile.TarInfo):
    """A tar header with bounded extensions, because the library reads extensions into memory.

    Maps of sparse files are not read: the header gives their length, and such files are refused anyway.
    """

    def _proc_gnusparse_10(self, member: tarfile.TarInfo, *_: object) -> None:
        member.sparse = b""

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10

    def _proc_sparse(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        raise _RefusedTarError(messages.OLD_SPARSE)

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENSIONS and self.size > _LONGEST_HEADER:
            raise _RefusedTarError(messages.LONG_HEADER)
        made: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return made


class _Bounded:
    """The unpacked bytes of an archive, up to a limit; skipped bytes count too, since they must be unpacked."""

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
    """The entries of a tar archive, one after the other, in memory that does not grow with their number."""
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
    """The content of a gzip file, up to the damage if there is any."""
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
    raise CutShortError(messages.NO_END_MARK)


def _listed(names: Sequence[str]) -> str:
    shown = [_short(name) for name in names[:3]]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _short(name: str) -> str:
    return name.encode("utf-8", "replace").decode()[:_LONGEST_SHOWN]
