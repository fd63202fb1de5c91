"""The cache of tables: a folder of Parquet files for each content, reader version and option, not beside the input."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.store import messages
from hermes.store.file_index import FOLDER
from hermes.store.private_folders import private_folder
from hermes.store.unfinished_folders import making

_MANIFEST = "manifest.json"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One cached capture: its folder of Parquet files, and the notes made when the capture was read."""

    folder: Path
    manifest: Mapping[str, object]

    @property
    def bytes(self) -> int:
        """The size of the cached capture on disk, in bytes."""
        return sum(path.stat().st_size for path in self.folder.iterdir() if path.is_file())


def unwritable(root: Path, why: str) -> HermesError:
    """The error to raise when the cache has no room or may not be written."""
    return HermesError(
        messages.cache_unwritable(why=why),
        where=str(root),
        lost=messages.LOST_UNCACHED,
        hint=messages.DO_FREE_CACHE,
    )


class Cache:
    """A folder of cached captures. Each entry is made elsewhere and moved in whole: readers never see half an entry."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Entry | None:
        """The complete entry with this key, or None."""
        folder = self._folder(key)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(manifest, dict) and _holds(folder, manifest.get("files"))
        return Entry(folder=folder, manifest=manifest) if whole else None

    @contextmanager
    def making(self) -> Iterator[Path]:
        """A new folder to make an entry in; it is deleted afterwards unless `keep` moved the folder into the cache.

        Raises `HermesError` when the folder cannot be made, or when its disk fills up.
        """
        with ExitStack() as held:
            try:
                aside = held.enter_context(making(self.root))
            except OSError as refused:
                raise unwritable(self.root, refused.strerror or str(refused)) from refused
            try:
                yield aside
            except OSError as refused:
                if refused.errno not in _FULL:
                    raise
                raise unwritable(self.root, refused.strerror or str(refused)) from refused

    def keep(self, key: str, made: Path, manifest: Mapping[str, object]) -> Entry:
        """Move a folder made under `making` into the cache as the entry with this key."""
        shutil.rmtree(made / "scratch", ignore_errors=True)
        # A cleaner of old files may later delete single files: the sizes in the manifest show that.
        sizes = {path.name: path.stat().st_size for path in sorted(made.iterdir()) if path.is_file()}
        manifest = {**manifest, "files": sizes}
        (made / _MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False), "utf-8", errors="replace")
        folder = self._folder(key)
        private_folder(folder.parent)
        try:
            made.rename(folder)
        except OSError:
            # Another process made the same entry meanwhile, or a broken entry is in the way.
            there = self.find(key)
            if there:
                return there
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
        return Entry(folder=folder, manifest=manifest)

    def entries(self) -> list[Entry]:
        """All complete entries of the cache, sorted by folder."""
        keys = sorted(path.parent.name for path in self.root.glob(f"tables/*/*/{_MANIFEST}"))
        return [entry for key in keys if (entry := self.find(key))]

    def clear(self) -> int:
        """Remove all entries and leftover folders of the cache; returns the number of entries removed."""
        count = len(self.entries())
        for part in ("tables", "making", "measured", "remote", "exported", "unpacked", FOLDER):
            shutil.rmtree(self.root / part, ignore_errors=True)
        return count

    def _folder(self, key: str) -> Path:
        return self.root / "tables" / key[:2] / key


def _holds(folder: Path, sizes: object) -> bool:
    """Whether all files of an entry exist and have the sizes with which they were written."""
    if not isinstance(sizes, dict):
        return False
    try:
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except OSError:
        return False


def default_root(environment: Mapping[str, str], home: Path) -> Path:
    """The cache's default folder: `HERMES_CACHE_DIR`, else `hermes` in `XDG_CACHE_HOME`, else `~/.cache/hermes`."""
    if given := environment.get("HERMES_CACHE_DIR"):
        return Path(given)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else home / ".cache") / "hermes"
