"""The cache of tables: one folder of Parquet for each content, reader version and option, never beside the input."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.store.index import FOLDER
from hermes.store.making import making
from hermes.store.private import private_folder

_MANIFEST = "manifest.json"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One cached capture: its folder of Parquet files and what was noted when it was read."""

    folder: Path
    manifest: Mapping[str, object]

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return sum(path.stat().st_size for path in self.folder.iterdir() if path.is_file())


def unwritable(root: Path, why: str) -> HermesError:
    """What to raise when the cache has no room or may not be written."""
    return HermesError(
        f"the cache cannot be written ({why})",
        where=str(root),
        lost="everything that is not in it yet",
        hint="free disk space, or set HERMES_CACHE_DIR to a folder that you may write",
    )


class Cache:
    """A folder of entries. Entries are made aside and moved in whole, so that readers never see half of one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Entry | None:
        """The entry of that key, or None when there is none that is whole."""
        folder = self._folder(key)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(manifest, dict) and _holds(folder, manifest.get("files"))
        return Entry(folder=folder, manifest=manifest) if whole else None

    @contextmanager
    def making(self) -> Iterator[Path]:
        """A new folder to make an entry in; it is gone afterwards unless `keep` moved it in.

        Raises `HermesError` when it cannot be made, or when its disk fills up.
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
        """Move a folder made under `making` in as the entry of that key."""
        shutil.rmtree(made / "scratch", ignore_errors=True)
        # A cleaner of old files may take single ones later: the sizes tell.
        sizes = {path.name: path.stat().st_size for path in sorted(made.iterdir()) if path.is_file()}
        manifest = {**manifest, "files": sizes}
        (made / _MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False), "utf-8", errors="replace")
        folder = self._folder(key)
        private_folder(folder.parent)
        try:
            made.rename(folder)
        except OSError:
            # Someone else made the same entry meanwhile; or a broken one is in the way.
            there = self.find(key)
            if there:
                return there
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
        return Entry(folder=folder, manifest=manifest)

    def entries(self) -> list[Entry]:
        """All entries that are whole, by folder."""
        keys = sorted(path.parent.name for path in self.root.glob(f"tables/*/*/{_MANIFEST}"))
        return [entry for key in keys if (entry := self.find(key))]

    def clear(self) -> int:
        """Remove everything that Hermes put there; returns how many entries that were."""
        count = len(self.entries())
        for part in ("tables", "making", "measured", "remote", "exported", "unpacked", FOLDER):
            shutil.rmtree(self.root / part, ignore_errors=True)
        return count

    def _folder(self, key: str) -> Path:
        return self.root / "tables" / key[:2] / key


def _holds(folder: Path, sizes: object) -> bool:
    """Whether the files of an entry are all there and as long as they were written."""
    if not isinstance(sizes, dict):
        return False
    try:
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except OSError:
        return False


def default_root(environment: Mapping[str, str], home: Path) -> Path:
    """`HERMES_CACHE_DIR`, else `hermes` in `XDG_CACHE_HOME`, else `~/.cache/hermes`."""
    if given := environment.get("HERMES_CACHE_DIR"):
        return Path(given)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else home / ".cache") / "hermes"
