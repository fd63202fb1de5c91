"""Writes a file aside and puts it in its place whole: nobody reads half of it, and no link leads the writing astray.

The draft lies in a new folder beside its place that only this user may enter, and is made there anew. So whoever may
write that place too, as in a folder of a job that root looks at, can neither foresee nor swap it. Folders are held by
descriptor: one that is moved away meanwhile is not looked up again by its name. A link in the file's place is replaced
and never followed; a device, a pipe or a socket there is left alone, since others use it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hermes.base.ending import when_told

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def write_atomic(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to write, with these permissions whatever the umask; it takes the place of `path` when the block ends.

    After an exception `path` is as it was. Raises `OSError`, also where something else than a file or a link is there.
    """
    with _beside(path) as (above, own):
        _check_place(path, above)
        descriptor = os.open(path.name, _NEW, 0o600, dir_fd=own)
        try:
            with os.fdopen(descriptor, "wb") as file:
                # Not this process' number: some file systems give all to one user, others root's to nobody.
                if os.fstat(own).st_uid != os.fstat(descriptor).st_uid:
                    raise PermissionError(errno.EPERM, "another user changes the folder", str(path.parent))
                yield file
                file.flush()
                os.fchmod(descriptor, mode)
            os.replace(path.name, path.name, src_dir_fd=own, dst_dir_fd=above)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path.name, dir_fd=own)
            raise


def _check_place(path: Path, above: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path.name, dir_fd=above).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and no file", str(path))


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[tuple[int, int]]:
    """The folder of `path`, and a new one in it for this user alone, both open; the new one is gone afterwards."""
    above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f".write-{secrets.token_hex(8)}"
    try:
        os.mkdir(name, 0o700, dir_fd=above)
        try:
            own = os.open(name, _FOLDER, dir_fd=above)
            try:
                with when_told(lambda: _drop(path.name, name, above, own)):
                    yield above, own
            finally:
                os.close(own)
        finally:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=above)
    finally:
        os.close(above)


def _drop(file: str, folder: str, above: int, own: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(file, dir_fd=own)
    with contextlib.suppress(OSError):
        os.rmdir(folder, dir_fd=above)
