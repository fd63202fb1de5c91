"""Small files of the kernel's, in `/proc` and `/sys`: text, numbers, and what lies in a folder."""

from __future__ import annotations

from pathlib import Path

from hermes.base.units import whole

_LARGEST = 1 << 18
Rows = list[tuple[tuple[str, ...], float]]


def text(path: Path) -> str:
    """A small file of the kernel's; empty where it is not there, or may not be read."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("ascii", "replace")
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """The number that a file holds and nothing else; None where there is none."""
    return whole(text(path).strip())


def entries(folder: Path, most: int) -> list[Path]:
    """What lies in a folder of the kernel's, by name; nothing where it is not there."""
    try:
        return sorted(folder.iterdir())[:most]
    except OSError:
        return []
