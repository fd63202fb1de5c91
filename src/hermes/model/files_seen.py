"""Rows about the input's files: read, not needed, or of unknown format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Text

FileState = Literal["read", "not needed", "not known"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSeen:
    """Files of one kind in the input; `name` has `N` for each number in a file name, `example` is one file's path."""

    state: FileState
    name: str
    count: int
    example: str
    why: Text
