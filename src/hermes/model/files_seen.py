"""Which files of the input were read, which were not needed, and which nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Text

FileState = Literal["read", "not needed", "not known"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSeen:
    """Files of one kind; `name` has `N` for each number in their names, `example` is the path of one of them."""

    state: FileState
    name: str
    count: int
    example: str
    why: Text
