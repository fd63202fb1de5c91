"""Finds the elements of a `.npy` file of a plain array without loading it: its header is a literal.

Files that hold objects are pickled, and are left out.
"""

from __future__ import annotations

import ast
import math

from hermes.precision.recorded_step import RecordedValue

_MAGIC = b"\x93NUMPY"
_LARGEST_HEADER = 65_536
Bytes = bytes | memoryview
_KINDS = {
    "<f8": ("float64", 8), "<f4": ("float32", 4), "<f2": ("float16", 2), "<i8": ("int64", 8), "<i4": ("int32", 4),
    "<i2": ("int16", 2), "|i1": ("int8", 1), "|u1": ("uint8", 1), "<u2": ("uint16", 2), "<u4": ("uint32", 4),
    "<u8": ("uint64", 8), "|b1": ("bool", 1), "<c8": ("complex64", 8), "<c16": ("complex128", 16),
}  # fmt: skip


def span(whole: Bytes, value: RecordedValue) -> tuple[int, int] | None:
    """Where a file's elements of a value begin and end; None if it holds no array of the value's shape and type."""
    try:
        return _span(whole, value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _span(whole: Bytes, value: RecordedValue) -> tuple[int, int] | None:
    head = bytes(whole[:12])
    if len(head) < 12 or head[:6] != _MAGIC or head[6] not in (1, 2, 3):
        return None
    begin = 10 if head[6] == 1 else 12
    size = int.from_bytes(head[8:begin], "little")
    first = begin + size
    if size > _LARGEST_HEADER or first > len(whole):
        return None
    header = ast.literal_eval(str(whole[begin:first], "latin-1"))
    if not isinstance(header, dict) or header.get("fortran_order") is not False:
        return None
    kind = _KINDS.get(str(header.get("descr")))
    if kind is None or header.get("shape") != value.shape or kind[0] != value.dtype:
        return None
    end = first + math.prod(value.shape) * kind[1]
    return (first, end) if end <= len(whole) else None
