"""Reads one tensor out of a `.pt` file of torch without unpickling it, and leaves what is not plain to torch itself.

A file that `torch.save` wrote of one tensor is a zip, uncompressed, with a pickle that calls one known function with
known
arguments. The pickle's opcodes are listed, never run: what does not read like such a call goes to torch's weights-only
loader, in a process of its own with a limit on memory.
"""

from __future__ import annotations

import functools
import math
import os
import pickletools
import struct
from pathlib import Path

from hermes.precision.model import Place, Value

_STORAGE = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128",
}  # fmt: skip
_SIZES = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip
_LARGEST_PICKLE = 100_000
_LARGEST_FILE = 64 << 30
_DIRECTORY_END = struct.Struct("<4sHHHHIIH")
_DIRECTORY_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
_MOST_MEMBERS = 64
_HEAD = 1 << 11


def place(path: Path, value: Value) -> Value:
    """The value with the place of its elements; without a place where the file is not one plain tensor."""
    try:
        found = _plain(path, value)
    except (OSError, ValueError, IndexError, KeyError, struct.error):
        found = None
    return found if found is not None else value._replace(data=None)


def _plain(path: Path, value: Value) -> Value | None:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        whole = os.fstat(file).st_size
        if whole > _LARGEST_FILE:
            return None
        members = _members(file, whole)
        name = next((one for one in members if one.endswith("/data.pkl")), None)
        if name is None or members[name][1] > _LARGEST_PICKLE:
            return None
        bytes_of = _Bytes(file)
        read = _tensor(bytes_of.read(members[name][1], bytes_of.start(members[name][0])))
        if read is None:
            return None
        dtype, key, offset, shape, strides = read
        header, length = members[name.removesuffix("data.pkl") + f"data/{key}"]
        begin = bytes_of.start(header)
    finally:
        os.close(file)
    dense = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    size = _SIZES[dtype]
    count = math.prod(shape)
    if shape != value.shape or dtype != value.dtype or (strides != dense and count > 1):
        return None
    first = begin + offset * size
    if offset < 0 or (offset + count) * size > length or first + count * size > whole:
        return None
    return value._replace(data=Place(path, first, first + count * size))


def _members(file: int, whole: int) -> dict[str, tuple[int, int]]:
    """Where the header of each uncompressed member of a zip lies, and its bytes."""
    # The directory of one tensor is short; a comment may stand behind it.
    for length in (1 << 11, 1 << 16):
        start = max(whole - length, 0)
        tail = os.pread(file, length, start)
        place = tail.rfind(b"PK\x05\x06")
        if place >= 0:
            break
    else:
        raise ValueError("no zip")
    count, size, begin = _DIRECTORY_END.unpack_from(tail, place)[4:7]
    if count > _MOST_MEMBERS or begin + size > whole:
        raise ValueError("no directory of one tensor")
    first = begin - start
    entries = tail[first : first + size] if first >= 0 else os.pread(file, size, begin)
    found, at = {}, 0
    for _ in range(count):
        entry = _DIRECTORY_ENTRY.unpack_from(entries, at)
        length = entry[10]
        name = entries[at + 46 : at + 46 + length].decode("utf-8", "replace")
        if entry[4] == 0 and entry[8] == entry[9]:
            found[name] = (entry[16], entry[9])
        at += 46 + length + entry[11] + entry[12]
    return found


class _Bytes:
    """What lies in a file; its beginning is read once, since torch writes the pickle there."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._head = os.pread(file, _HEAD, 0)

    def read(self, length: int, at: int) -> bytes:
        """So many bytes from a place on."""
        return self._head[at : at + length] if at + length <= len(self._head) else os.pread(self._file, length, at)

    def start(self, header: int) -> int:
        """Where the bytes of a member begin: behind its own header, whose length only it knows."""
        head = self.read(30, header)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise ValueError("no member where the directory says")
        return header + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")


@functools.lru_cache(maxsize=4096)
def _tensor(pickled: bytes) -> tuple[str, str, int, tuple[int, ...], tuple[int, ...]] | None:
    """dtype, key of the storage, offset, shape and strides; None where this is not one plain tensor."""
    names: list[str] = []
    words: list[object] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("GLOBAL", "STACK_GLOBAL", "INST"):
            names.append(str(argument))
            words.append(("name", str(argument)))
        elif opcode.name in ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "INT"):
            words.append(argument)
        elif opcode.name in ("MARK", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "BINPERSID"):
            words.append((opcode.name,))
        elif opcode.name not in _QUIET:
            return None
    allowed = {"torch._utils _rebuild_tensor_v2", "collections OrderedDict"}
    storages = [name.removeprefix("torch ") for name in names if name not in allowed]
    if len(storages) != 1 or storages[0] not in _STORAGE:
        return None
    return _arguments(words, _STORAGE[storages[0]])


_QUIET = frozenset(
    [
        "PROTO",
        "FRAME",
        "BINPUT",
        "LONG_BINPUT",
        "MEMOIZE",
        "BINGET",
        "LONG_BINGET",
        "NEWFALSE",
        "NEWTRUE",
        "REDUCE",
        "STOP",
        "EMPTY_DICT",
        "BUILD",
    ]
)


def _arguments(words: list[object], dtype: str) -> tuple[str, str, int, tuple[int, ...], tuple[int, ...]] | None:
    at = words.index("storage")
    key = words[at + 2]
    end = words.index(("BINPERSID",))
    offset = words[end + 1]
    if not isinstance(key, str) or not key.isdigit() or type(offset) is not int:
        return None
    shape, next_at = _tuple(words, end + 2)
    strides, _ = _tuple(words, next_at)
    if len(shape) != len(strides):
        return None
    return dtype, key, offset, shape, strides


def _tuple(words: list[object], at: int) -> tuple[tuple[int, ...], int]:
    found: list[int] = []
    while True:
        word = words[at]
        at += 1
        if isinstance(word, int):
            found.append(word)
        elif word == ("MARK",):
            continue
        elif isinstance(word, tuple) and word[0] in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE"):
            return tuple(found), at
        else:
            raise ValueError("no tuple of numbers")
