"""Reads small files of the Linux kernel in `/proc` and `/sys`: texts, numbers and names in a folder."""

from __future__ import annotations

from pathlib import Path

from hermes.base.units import whole_number

_LARGEST = 1 << 18
Rows = list[tuple[tuple[str, ...], float]]


def text(path: Path) -> str:
    """The text of a small file; empty if it does not exist or is not readable."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("ascii", "replace")
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """The number in a file; None if the file holds anything else, or is not readable."""
    return whole_number(text(path).strip())


def entries(folder: Path, most: int) -> list[Path]:
    """The first `most` entries of a folder by name; empty if the folder cannot be read."""
    try:
        return sorted(folder.iterdir())[:most]
    except OSError:
        return []
