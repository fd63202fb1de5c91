"""Makes folders of the cache for this user alone, whatever the umask: who writes there can change Hermes' results."""

from __future__ import annotations

from pathlib import Path


def private_folder(path: Path) -> None:
    """Make a folder and its missing parents for this user alone. Existing folders stay unchanged. Raises `OSError`."""
    missing = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
