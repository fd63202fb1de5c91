"""Finds out which keys of the daemon's protocol a process's libkineto knows, by searching the library for their text.

The protocol has no version, and libkineto skips unknown keys. So Hermes looks for each key in the library that the
process has mapped, before it sends the key. libkineto compares keys with texts, and the file holds these texts.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

RESTRICTED = "KINETO_ONDEMAND_TRACE_DIR"
"""The variable that names the folder for traces, in libraries that write to no other folder; by default they use
/tmp."""


def missing_words(library: Path, words: Iterable[str]) -> tuple[str, ...] | None:
    """The words that the library does not contain; None where the library cannot be read."""
    try:
        about = library.stat()
    except OSError:
        return None
    return _missing(str(library), about.st_dev, about.st_ino, about.st_mtime_ns, tuple(words))


@lru_cache(maxsize=64)
def _missing(path: str, _device: int, _inode: int, _changed_ns: int, words: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as text:
            return tuple(word for word in words if text.find(word.encode()) < 0)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
