"""What lies packed among the files of a user: archives of profiles, and single files that somebody packed with gzip."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.base.errors import Diagnostic, HermesError, InputError
from hermes.base.message import renamed
from hermes.profiles.read.ascend.folder import known
from hermes.profiles.read.discover import capture_root
from hermes.store.cache import Cache
from hermes.store.files import Seen, walk
from hermes.store.unpacked import Unpacked, holds, is_archive, stage, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """All files, with what was packed in its place; the folders it was unpacked into, and what could not be."""

    files: tuple[Path, ...]
    folders: tuple[Unpacked, ...] = ()
    failed: tuple[HermesError, ...] = ()
    passed: tuple[Diagnostic, ...] = ()
    """What must be said of folders that could not be looked into."""

    def told(self, text: str) -> str:
        """A text that names what the user gave, and no folder of the cache."""
        for one in self.folders:
            text = one.told(text)
        return text

    def note(self, note: Diagnostic) -> Diagnostic:
        """The same of a note."""
        return replace(note, message=renamed(note.message, self.told), where=self.told(note.where))

    def error(self, error: InputError) -> InputError:
        """The same of an error."""
        what = renamed(error.what, self.told)
        return InputError(what, where=self.told(error.where), lost=error.lost, hint=error.hint)

    def of(self, path: Path) -> Unpacked | None:
        """The unpacked folder that a file lies in."""
        return next((one for one in self.folders if path.is_relative_to(one.root)), None)


_TRACE = re.compile(r"\.pt\.trace\.json|(trace|rank|worker|prof|step|kineto)[^/]*\.json(\.gz)?$|\.(db|sqlite)$", re.I)


def opened(seen: Seen, cache: Cache, fetched: Mapping[Path, str], *, given: Collection[Path]) -> Opened:
    """These files, archives replaced by what they hold, and packed files of Ascend's profilers by what they were.

    Kineto traces stay packed: their reader unpacks them itself. `fetched` are archives of URLs, and what to call each.
    """
    plain: list[Path] = []
    folders: list[Unpacked] = []
    failed: list[HermesError] = []
    for path in (*seen.files, *fetched):
        asked = path in given or path in fetched
        if not is_archive(path) or not (asked or holds(path, _is_profile)):
            plain.append(path)
            continue
        try:
            made = unpack(path, cache, fetched.get(path, ""))
        except HermesError as refused:
            failed.append(refused)
            continue
        folders.append(made)
        plain += [inner for inner in walk([made.root]) if not is_archive(inner)]
    staged, beside = _staged(plain, cache, failed)
    return Opened(files=tuple(beside), folders=(*staged, *folders), failed=tuple(failed), passed=seen.notes)


def _is_profile(name: str) -> bool:
    return known(name) or known(name.removesuffix(".gz")) or _TRACE.search(name) is not None


def _staged(files: list[Path], cache: Cache, failed: list[HermesError]) -> tuple[list[Unpacked], list[Path]]:
    """Captures of which some files are packed, as folders in which none is; and the files with those in their place."""
    packed = {path for path in files if path.suffix == ".gz" and known(path.stem)}
    # `gzip -k` leaves both: the plain one is enough.
    packed -= {path for path in packed if path.with_suffix("") in set(files)}
    roots = {root for path in packed if (root := capture_root(path))}
    made: list[Unpacked] = []
    for root in sorted(roots):
        own = [path for path in files if path.is_relative_to(root)]
        try:
            one = stage(
                root, [path for path in own if path in packed], [path for path in own if path not in packed], cache
            )
        except HermesError as refused:
            failed.append(refused)
            continue
        made.append(one)
        mine = set(own)
        files = [path for path in files if path not in mine] + walk([one.root])
    return made, sorted(files)
