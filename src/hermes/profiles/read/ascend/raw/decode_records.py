"""Decodes the records that torch_npu and MindSpore write under `FRAMEWORK` while they record.

The layout follows the parsers in the wheels of torch_npu 2.13.0 and MindSpore 2.10. Most files are a chain of records
(type of 2 bytes, length of 4 bytes, value, little-endian). A value is a fixed part and then a chain of fields of the
same shape. `gc_record` and `python_tracer_func` are fixed parts alone. A file of a killed job ends anywhere.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

_HEAD = Struct("<HI")
_MOST_BROKEN = 10_000

OP_RANGE = Struct("<3q4QB?")
"""Fields: start, end, sequence, process, threads of start, end and forward, scope, asynchronous."""
OP_MARK = Struct("<q4Q")
"""Fields: time, category, correlation, thread, process."""
MEMORY_USAGE = Struct("<7q2b3B2Q")
"""Fields: pointer, time, size, allocated, reserved, active, stream; device type, index; component, what, allocator;
thread, process.
"""
GC_RECORD = Struct("<3Q")
"""Fields: process, start, end."""
TRACER_FUNC = Struct("<4QB")
"""Fields: time, thread, process, key of the name, what happened."""
TRACER_HASH = Struct("<Q")
"""Field: key of a name."""
MINDSPORE_RANGE = Struct("<5Qi3Hb3?")
"""Fields: thread, flow, step, start, end, process, module, event, stage, level, graph data, stage, stack."""


@dataclass(slots=True, kw_only=True)
class Records:
    """The content of a file of records: fixed parts, the fields of each, and how many could not be read."""

    fixed: list[tuple[int, ...]] = field(default_factory=list)
    fields: list[dict[int, str]] = field(default_factory=list)
    broken: int = 0


def chained(path: Path, fixed: Struct, wanted: frozenset[int]) -> Records:
    """The records of a file of records with fields; only the `wanted` fields are kept. Raises `OSError`."""
    found = Records()
    names: dict[bytes, str] = {}
    with _opened(path) as data:
        place, end = 0, len(data)
        while place + _HEAD.size <= end:
            _, length = _HEAD.unpack_from(data, place)
            start, place = place + _HEAD.size, place + _HEAD.size + length
            if place > end or length < fixed.size:
                found.broken += 1
                if found.broken > _MOST_BROKEN:
                    break
                continue
            found.fixed.append(fixed.unpack_from(data, start))
            found.fields.append(_fields(data, start + fixed.size, place, wanted, names))
        else:
            found.broken += place < end
    return found


def plain(path: Path, fixed: Struct) -> Records:
    """The records of a file of fixed parts alone. Raises `OSError`."""
    with _opened(path) as data:
        whole = len(data) // fixed.size * fixed.size
        rows = list(fixed.iter_unpack(data[:whole])) if whole else []
        return Records(fixed=rows, fields=[{}] * len(rows), broken=int(whole < len(data)))


def _fields(
    data: mmap.mmap | bytes, place: int, end: int, wanted: frozenset[int], names: dict[bytes, str]
) -> dict[int, str]:
    """The texts of fields by field number; equal texts are kept once."""
    found: dict[int, str] = {}
    while place + _HEAD.size <= end:
        kind, length = _HEAD.unpack_from(data, place)
        start, place = place + _HEAD.size, place + _HEAD.size + length
        if place > end:
            break
        if kind in wanted:
            text = data[start:place]
            known = names.get(text)
            if known is None:
                known = names[text] = text.decode("utf-8", "replace")
            found[kind] = known
    return found


@contextmanager
def _opened(path: Path) -> Iterator[mmap.mmap | bytes]:
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
