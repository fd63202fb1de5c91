"""Finds the elements of a `.npy` file of a plain array without loading it: its header is a literal.

What holds objects is pickled, and left out.
"""

from __future__ import annotations

import ast
import math
import os
from pathlib import Path

from hermes.precision.model import Place, Value

_MAGIC = b"\x93NUMPY"
_LARGEST_HEADER = 65_536
_KINDS = {
    "<f8": ("float64", 8), "<f4": ("float32", 4), "<f2": ("float16", 2), "<i8": ("int64", 8), "<i4": ("int32", 4),
    "<i2": ("int16", 2), "|i1": ("int8", 1), "|u1": ("uint8", 1), "<u2": ("uint16", 2), "<u4": ("uint32", 4),
    "<u8": ("uint64", 8), "|b1": ("bool", 1), "<c8": ("complex64", 8), "<c16": ("complex128", 16),
}  # fmt: skip


def place(path: Path, value: Value) -> Value:
    """The value with the place of its elements; without a place where the file is no such array of its shape and
    type."""
    try:
        found = _plain(path, value)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    return found if found is not None else value._replace(data=None)


def _plain(path: Path, value: Value) -> Value | None:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        whole = os.fstat(file).st_size
        head = os.pread(file, 12, 0)
        if len(head) < 12 or head[:6] != _MAGIC or head[6] not in (1, 2, 3):
            return None
        size = int.from_bytes(head[8:10] if head[6] == 1 else head[8:12], "little")
        first = (10 if head[6] == 1 else 12) + size
        if size > _LARGEST_HEADER or first > whole:
            return None
        header = ast.literal_eval(os.pread(file, size, first - size).decode("latin-1"))
    finally:
        os.close(file)
    if not isinstance(header, dict) or header.get("fortran_order") is not False:
        return None
    kind = _KINDS.get(str(header.get("descr")))
    if kind is None or header.get("shape") != value.shape or kind[0] != value.dtype:
        return None
    end = first + math.prod(value.shape) * kind[1]
    return value._replace(data=Place(path, first, end)) if end <= whole else None
