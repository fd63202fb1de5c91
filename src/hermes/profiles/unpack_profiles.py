"""Unpacks archives of profiles, and single files packed with gzip, in the user's input."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.base.errors import Diagnostic, HermesError, InputError
from hermes.base.message import with_texts_turned
from hermes.profiles.read.ascend.capture_folders import is_profiler_file
from hermes.profiles.read.discover import capture_root
from hermes.store.cache import Cache
from hermes.store.input_files import FoundFiles, walk
from hermes.store.unpacked_archives import UnpackedArchive, holds, is_archive, stage, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedProfiles:
    """The files of an input after unpacking: plain files, folders of unpacked archives, and archives that failed."""

    files: tuple[Path, ...]
    folders: tuple[UnpackedArchive, ...] = ()
    failed: tuple[HermesError, ...] = ()
    passed: tuple[Diagnostic, ...] = ()
    """Notes about folders of the input that could not be listed."""

    def told(self, text: str) -> str:
        """A text in which the user's own path replaces a folder of the cache."""
        for one in self.folders:
            text = one.told(text)
        return text

    def note(self, note: Diagnostic) -> Diagnostic:
        """A note in which the user's own path replaces a folder of the cache."""
        return replace(note, message=with_texts_turned(note.message, self.told), where=self.told(note.where))

    def error(self, error: InputError) -> InputError:
        """An error in which the user's own path replaces a folder of the cache."""
        what = with_texts_turned(error.what, self.told)
        return InputError(what, where=self.told(error.where), lost=error.lost, hint=error.hint)

    def of(self, path: Path) -> UnpackedArchive | None:
        """The unpacked folder that holds a file; None if the file was not packed."""
        return next((one for one in self.folders if path.is_relative_to(one.root)), None)


_TRACE = re.compile(r"\.pt\.trace\.json|(trace|rank|worker|prof|step|kineto)[^/]*\.json(\.gz)?$|\.(db|sqlite)$", re.I)


def unpack_profiles(
    seen: FoundFiles, cache: Cache, fetched: Mapping[Path, str], *, given: Collection[Path]
) -> UnpackedProfiles:
    """Unpack the archives among the files, and packed files of Ascend's profilers.

    Kineto traces stay packed: their reader unpacks them itself. `fetched` are archives downloaded from URLs, with the
    name to show for each archive.
    """
    plain: list[Path] = []
    folders: list[UnpackedArchive] = []
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
    return UnpackedProfiles(files=tuple(beside), folders=(*staged, *folders), failed=tuple(failed), passed=seen.notes)


def _is_profile(name: str) -> bool:
    return is_profiler_file(name) or is_profiler_file(name.removesuffix(".gz")) or _TRACE.search(name) is not None


def _staged(files: list[Path], cache: Cache, failed: list[HermesError]) -> tuple[list[UnpackedArchive], list[Path]]:
    """Return folders of captures whose files were unpacked, and the list of files with the unpacked files."""
    packed = {path for path in files if path.suffix == ".gz" and is_profiler_file(path.stem)}
    # `gzip -k` leaves both files: the plain file is enough.
    packed -= {path for path in packed if path.with_suffix("") in set(files)}
    roots = {root for path in packed if (root := capture_root(path))}
    made: list[UnpackedArchive] = []
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
