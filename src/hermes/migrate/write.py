"""Writes a converted tree: to a new folder, or in place of the original if git can undo the change."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.write_atomic import write_atomic
from hermes.migrate import messages as say
from hermes.migrate.scan_model import FileChange, TreeChange

_RUN_NOTHING = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""git options that stop the tree's own configuration from starting programs."""
_ASK_NOBODY = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Variables that keep git from fetching what a partial clone lacks, and from writing its index."""
_FILTER = re.compile(r"(?i)filter\.(.*)\.(clean|smudge|process|required)", re.DOTALL)
_LEFT_OUT = {".git", "__pycache__", ".hg", ".svn"}


def diff(change: TreeChange) -> Iterator[str]:
    """The unified diff of all files, as `git apply` and `patch -p1` read it."""
    for file in change.changed:
        yield from diff_of(file)


def diff_of(file: FileChange) -> Iterator[str]:
    """The unified diff of one file."""
    before = file.before.splitlines(keepends=True)
    after = file.after.splitlines(keepends=True)
    for line in difflib.unified_diff(before, after, f"a/{file.path}", f"b/{file.path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def write_beside_tree(change: TreeChange, out: Path) -> None:
    """Copy the tree to a new folder, with its converted files in place of the original ones."""
    root = Path(change.root)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(say.NOT_EMPTY, where=str(out), hint=say.NAME_NEW)
    resolved = out.resolve()
    if root.is_dir() and (resolved == root.resolve() or root.resolve() in resolved.parents):
        raise InputError(say.INTO_ORIGINAL, where=str(out), hint=say.NAME_OUTSIDE)
    if root.is_dir():
        shutil.copytree(root, out, symlinks=True, ignore=_left_out, dirs_exist_ok=True, copy_function=_copy)
        _writable(out)
    else:
        out.mkdir(parents=True, exist_ok=True)
        _copy(str(root), str(out / root.name))
    for file in change.changed:
        if root.is_dir():
            _untie(root, out, Path(file.path).parent)
        _replace(_below(out, file), file, (root / file.path if root.is_dir() else root).stat().st_mode | 0o200)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Names that a copy leaves out: folders that tools keep, and pipes, sockets and devices, which hold no data."""
    kinds = {name: (Path(folder) / name).lstat().st_mode for name in names}
    plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return _LEFT_OUT.intersection(names) | {name for name, mode in kinds.items() if not any(is_(mode) for is_ in plain)}


def _untie(root: Path, out: Path, folder: Path) -> None:
    """Make sure that this folder lies in the copy: a link that leads out becomes a folder, with links to the original's
    files."""
    for above in (*reversed(folder.parents), folder):
        place = out / above
        if place.is_symlink() and not _inside(out, place):
            held = sorted((root / above).resolve().iterdir())
            place.unlink()
            place.mkdir()
            for entry in held:
                (place / entry.name).symlink_to(entry)


def _inside(root: Path, path: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _below(root: Path, file: FileChange) -> Path:
    """Where to write a file below a root: a link to another file of the tree stays a link."""
    path = root / file.path
    return path.resolve() if _inside(root, path) else path


def _copy(source: str, target: str) -> str:
    if Path(source).is_symlink():
        Path(target).symlink_to(Path(source).readlink())
        return target
    shutil.copyfile(source, target)
    Path(target).chmod(Path(source).stat().st_mode | 0o200)
    return target


def _writable(out: Path) -> None:
    for folder, _, _ in os.walk(out):
        Path(folder).chmod(Path(folder).stat().st_mode | 0o700)


def write_in_place_of_tree(change: TreeChange, *, force: bool) -> None:
    """Replace the changed files, each at once or not at all; refuses a tree whose changes git could not undo."""
    root = Path(change.root)
    if not force and change.changed:
        _committed(root if root.is_dir() else root.parent, change)
    for file in change.changed:
        target = root / file.path if root.is_dir() else root
        if root.is_dir() and not _inside(root, target):
            raise InputError(say.LEADS_OUT, where=str(target), lost=say.NOTHING_CHANGED, hint=say.INTO_NEW)
        if not os.access(target, os.W_OK) or not os.access(target.parent, os.W_OK):
            raise InputError(say.READ_ONLY, where=str(target), lost=say.NOTHING_CHANGED, hint=say.INTO_NEW)
    for file in change.changed:
        target = _below(root, file) if root.is_dir() else root.resolve()
        _replace(target, file, target.stat().st_mode)


def _committed(folder: Path, change: TreeChange) -> None:
    """Raise `InputError` unless the tree is committed in git, in each of its repositories."""
    lines = [line for one in _repositories(folder, change) for line in _changes(one)]
    if lines:
        changes = say.uncommitted(n=len(lines))
        raise InputError(changes, where=str(folder), lost=say.NOTHING_CHANGED, hint=say.COMMIT_FIRST)


def _repositories(folder: Path, change: TreeChange) -> list[Path]:
    """The folder, and the submodules below it with files that change, which git does not enter by itself."""
    places = {above for file in change.changed for above in Path(file.path).parents}
    return [folder, *sorted(folder / place for place in places if place.parts and (folder / place / ".git").exists())]


def _changes(folder: Path) -> list[str]:
    told = _git(folder, *_no_filters(folder), "status", "--porcelain", "--ignore-submodules=all", "--", ".")
    if told.returncode:
        raise InputError(say.NO_REPOSITORY, where=str(folder), hint=say.OUT_OR_FORCE)
    return told.stdout.splitlines()


def _no_filters(folder: Path) -> list[str]:
    """Options that turn off filters from the tree's own configuration: git would run filters to compare files.

    The filters of the user's configuration stay.
    """
    options = []
    for scope in ("--local", "--worktree"):
        told = _git(folder, "config", scope, "--includes", "--name-only", "--null", "--list")
        for name in filter(None, told.stdout.split("\0")):
            if "=" in name or "\n" in name:
                # Options cannot name such a filter to git.
                raise InputError(say.NO_GIT, where=str(folder), hint=say.OUT_OR_FORCE)
            if _FILTER.fullmatch(name):
                options += ["-c", f"{name}={'false' if name.lower().endswith('.required') else ''}"]
    return options


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The output of git for a folder; git runs no program that the folder names. Raises `InputError`."""
    try:
        return subprocess.run(
            ["git", *_RUN_NOTHING, "-C", str(folder), *words], capture_output=True, text=True, timeout=60, check=False,
            errors="surrogateescape", env={**os.environ, **_ASK_NOBODY}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise InputError(say.NO_GIT, where=str(folder), hint=say.OUT_OR_FORCE) from failed


def _replace(target: Path, file: FileChange, mode: int) -> None:
    """Replace one file by a new file."""
    data = file.after.encode(file.encoding)
    with write_atomic(target, mode=mode & 0o7777) as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
