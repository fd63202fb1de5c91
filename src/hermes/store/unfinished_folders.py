"""Makes temporary folders whose finished content moves into the cache, and removes folders that dead processes left.

A process holds a lock on its temporary folder. The system releases the lock however the process ends: an unlocked
folder is left over, also on a file system that several machines share. Whoever uses the cache next removes it.
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

from hermes.base.end_on_signal import clear_at_end, hold_while_ending
from hermes.store.private_folders import private_folder

_OLD_S = 86_400
"""On file systems without locks, a folder counts as left over after this many seconds: a day."""
_TRIES = 100
"""How often a new folder is made if other processes remove it before it is locked."""


@contextlib.contextmanager
def making(root: Path) -> Iterator[Path]:
    """A new temporary folder in the cache at `root`, deleted afterwards unless it was moved. Raises `OSError`."""
    sweep(root)
    folder = root / "making" / f"draft-{uuid.uuid4().hex}"
    # What clears the folder stands ready before the folder exists: no moment leaves a folder behind.
    with clear_at_end(lambda: _remove(folder)), contextlib.ExitStack() as held:
        hold_while_ending()
        _make(folder, held)
        yield folder


def sweep(root: Path) -> None:
    """Remove the temporary folders of processes that have ended; never raises."""
    with contextlib.suppress(OSError):
        for folder in (root / "making").iterdir():
            with contextlib.suppress(OSError), contextlib.ExitStack() as held:
                unlocked = _lock(folder, held, wait=False) is not None
                if unlocked or folder.lstat().st_mtime < time.time() - _OLD_S:
                    _remove(folder)


def _make(folder: Path, held: contextlib.ExitStack) -> None:
    """Make a folder whose lock is released when `held` is closed. Raises `OSError`."""
    for _ in range(_TRIES):
        private_folder(folder)
        # Another process may take the folder for a left one until it is locked.
        with contextlib.suppress(FileNotFoundError):
            handle = _lock(folder, held, wait=True)
            if handle is None or os.path.samestat(os.fstat(handle), folder.lstat()):
                return
    raise OSError(f"other processes removed {folder} {_TRIES} times")


def _lock(folder: Path, held: contextlib.ExitStack, *, wait: bool) -> int | None:
    """A file descriptor with the lock of a folder, which `held` closes; None where the file system has no locks.

    Raises `OSError` if the folder cannot be opened, or is locked by another process and may not be waited for.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return None
    return handle


def _remove(folder: Path) -> None:
    """Remove a folder after renaming it: a thread that still writes by the old name finds nothing there."""
    gone = folder.with_name(f"gone-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
