"""Writes a file to a draft and moves the complete draft into place: readers never see half a file.

The draft lies in a new folder beside the target that only this user may enter. Another user who may also write beside
the target, as in a job's folder that root reads, can neither foresee nor swap the draft. Folders are held by
descriptor, so a folder that is moved away meanwhile is not looked up again by name. A link at the target is replaced
and never followed; a device, a pipe or a socket there is left alone, since other programs use it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from hermes.base.end_on_signal import call_on_signal, clear_at_end

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def write_atomic(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to write, with permissions `mode` whatever the umask; it replaces `path` when the block ends.

    After an exception `path` is unchanged. Raises `OSError`, also if `path` is neither a file nor a link.
    """
    with _beside(path) as (above, own):
        _check_place(path, above)
        descriptor = os.open(path.name, _NEW, 0o600, dir_fd=own)
        try:
            with os.fdopen(descriptor, "wb") as file:
                # Not this process' owner: some file systems give every file to one user, or root's files to nobody.
                if os.fstat(own).st_uid != os.fstat(descriptor).st_uid:
                    raise PermissionError(errno.EPERM, "another user changes the folder", str(path.parent))
                yield file
                file.flush()
                os.fchmod(descriptor, mode)
            os.replace(path.name, path.name, src_dir_fd=own, dst_dir_fd=above)
        except BaseException:
            _ignore_errors(os.unlink, path.name, own)
            raise


def _check_place(path: Path, above: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path.name, dir_fd=above).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and no file", str(path))


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[tuple[int, int]]:
    """The folder of `path` and a new folder in it for this user alone, both open; the new one is deleted at the end."""
    above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f".write-{secrets.token_hex(8)}"
    try:
        # What removes the folder stands ready before the folder exists: no moment leaves a folder behind.
        with clear_at_end(lambda: _ignore_errors(os.rmdir, name, above)):
            os.mkdir(name, 0o700, dir_fd=above)
            own = os.open(name, _FOLDER, dir_fd=above)
            try:
                with call_on_signal(lambda: _ignore_errors(os.unlink, path.name, own)):
                    yield above, own
            finally:
                os.close(own)
    finally:
        os.close(above)


class _Remove(Protocol):
    """A function of `os` that removes a name in a folder."""

    def __call__(self, path: str, *, dir_fd: int) -> None: ...


def _ignore_errors(remove: _Remove, name: str, folder: int) -> None:
    with contextlib.suppress(OSError):
        remove(name, dir_fd=folder)
