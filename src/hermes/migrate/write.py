"""Writes a converted tree: beside the original, or in its place with a way back."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.write_atomic import write_atomic
from hermes.migrate import messages as say
from hermes.migrate.model import FileChange, TreeChange

_RUN_NOTHING = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""What the tree's own configuration of git must not start."""
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".hg", ".svn")


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


def beside(change: TreeChange, out: Path) -> None:
    """Copy the tree to a new folder, with the converted files in it."""
    root = Path(change.root)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(say.NOT_EMPTY, where=str(out), hint=say.NAME_NEW)
    resolved = out.resolve()
    if root.is_dir() and (resolved == root.resolve() or root.resolve() in resolved.parents):
        raise InputError(say.INTO_ORIGINAL, where=str(out), hint=say.NAME_OUTSIDE)
    if root.is_dir():
        shutil.copytree(root, out, symlinks=True, ignore=_LEFT_OUT, dirs_exist_ok=True, copy_function=_copy)
        _writable(out)
    else:
        out.mkdir(parents=True, exist_ok=True)
        _copy(str(root), str(out / root.name))
    for file in change.changed:
        _replace(out / file.path, file)


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


def in_place(change: TreeChange, *, force: bool) -> None:
    """Replace the changed files, each at once or not at all; refuses a tree whose changes git could not give back."""
    root = Path(change.root)
    if not force and change.changed:
        _committed(root if root.is_dir() else root.parent, change)
    for file in change.changed:
        target = root / file.path if root.is_dir() else root
        if not os.access(target, os.W_OK) or not os.access(target.parent, os.W_OK):
            raise InputError(say.READ_ONLY, where=str(target), lost=say.NOTHING_CHANGED, hint=say.INTO_NEW)
    for file in change.changed:
        _replace(root / file.path if root.is_dir() else root, file)


def _committed(folder: Path, change: TreeChange) -> None:
    try:
        told = subprocess.run(
            ["git", *_RUN_NOTHING, "-C", str(folder), "status", "--porcelain", "--", "."], capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise InputError(say.NO_GIT, where=str(folder), hint=say.OUT_OR_FORCE) from failed
    if told.returncode:
        raise InputError(say.NO_REPOSITORY, where=str(folder), hint=say.OUT_OR_FORCE)
    if told.stdout.strip():
        changes = say.uncommitted(n=len(told.stdout.splitlines()))
        raise InputError(changes, where=str(folder), lost=say.NOTHING_CHANGED, hint=say.COMMIT_FIRST)


def _replace(path: Path, file: FileChange) -> None:
    """Write one file by a new one in its place; a link is followed, so that it stays a link."""
    target = path.resolve()
    data = file.after.encode(file.encoding)
    mode = target.stat().st_mode
    with write_atomic(target, mode=mode & 0o7777) as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
