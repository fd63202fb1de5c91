"""Folders of the cache: for this user alone, whatever the umask; who could write one could change what Hermes shows."""

from __future__ import annotations

from pathlib import Path


def private_folder(path: Path) -> None:
    """Make a folder and those above it that are missing. Those that are there stay as they are. Raises `OSError`."""
    missing = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
