"""Folders in which something is made before it is moved into the cache, and what becomes of those that are left over.

Whoever makes something holds a lock on its folder. The system lets go of the lock however the process ends: a folder
that nobody holds is left over, also on a file system that several machines share.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from hermes.base.ending import cleared
from hermes.store.private import private_folder

_HELD = "held-"
_OLD_S = 86_400
"""Where nobody can lock, a folder is left over after a day."""


@contextlib.contextmanager
def making(root: Path) -> Iterator[Path]:
    """A new folder in the cache at `root`; it is gone afterwards, unless it was moved. Raises `OSError`."""
    sweep(root)
    new = root / "making" / f"new-{uuid.uuid4().hex}"
    private_folder(new)
    lock = _locked(new)
    folder = new.with_name(new.name.replace("new-", _HELD)) if lock is not None else new
    try:
        new.rename(folder)
        with cleared(lambda: _remove(folder)):
            yield folder
    finally:
        if lock is not None:
            os.close(lock)


def sweep(root: Path) -> None:
    """Remove what processes left over that are gone; never raises."""
    with contextlib.suppress(OSError):
        for folder in (root / "making").iterdir():
            if folder.name.startswith(_HELD):
                lock = _locked(folder)
                if lock is not None:
                    _remove(folder)
                    os.close(lock)
            elif folder.lstat().st_mtime < time.time() - _OLD_S:
                _remove(folder)


def _locked(folder: Path) -> int | None:
    """A handle that holds the lock of a folder; None where another process has it, or nobody can."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove(folder: Path) -> None:
    """Under another name first: a thread that still writes by the old one finds nothing there."""
    gone = folder.with_name(f"gone-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
