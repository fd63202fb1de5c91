"""Makes temporary folders whose finished content moves into the cache, and removes folders that dead processes left.

A process holds a lock on its temporary folder. The system releases the lock however the process ends: an unlocked
folder is left over, also on a file system that several machines share.
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

from hermes.base.end_on_signal import clear_at_end
from hermes.store.private_folders import private_folder

_HELD = "held-"
_OLD_S = 86_400
"""On file systems without locks, a folder counts as left over after this many seconds: a day."""


@contextlib.contextmanager
def making(root: Path) -> Iterator[Path]:
    """A new temporary folder in the cache at `root`, deleted afterwards unless it was moved. Raises `OSError`."""
    sweep(root)
    new = root / "making" / f"new-{uuid.uuid4().hex}"
    private_folder(new)
    lock = _locked(new)
    folder = new.with_name(new.name.replace("new-", _HELD)) if lock is not None else new
    try:
        new.rename(folder)
        with clear_at_end(lambda: _remove(folder)):
            yield folder
    finally:
        if lock is not None:
            os.close(lock)


def sweep(root: Path) -> None:
    """Remove the temporary folders of processes that have ended; never raises."""
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
    """A file descriptor that holds the lock of a folder; None if another process has the lock, or locking fails."""
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
    """Remove a folder after renaming it: a thread that still writes by the old name finds nothing there."""
    gone = folder.with_name(f"gone-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
