"""Finds the elements of one tensor in a `.pt` file of torch without unpickling it.

A file that `torch.save` wrote of one tensor is an uncompressed zip with a pickle that calls one known function with
known arguments. The pickle's opcodes are listed, never run. A file is left out if its opcodes are no such call, or if
its elements lie in another order than the tensor's.
"""

from __future__ import annotations

import functools
import math
import pickletools
import struct

from hermes.precision.recorded_step import RecordedValue

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
Bytes = bytes | memoryview


def span(whole: Bytes, value: RecordedValue) -> tuple[int, int] | None:
    """Where a file's elements of a value begin and end; None if the file is not one plain tensor of its shape."""
    try:
        return _span(whole, value)
    except (ValueError, IndexError, KeyError, struct.error):
        return None


def _span(whole: Bytes, value: RecordedValue) -> tuple[int, int] | None:
    if len(whole) > _LARGEST_FILE:
        return None
    members = _members(whole)
    name = next((one for one in members if one.endswith("/data.pkl")), None)
    if name is None or members[name][1] > _LARGEST_PICKLE:
        return None
    header, length = members[name]
    at = _start(whole, header)
    read = _tensor(bytes(whole[at : at + length]))
    if read is None:
        return None
    dtype, key, offset, shape, dense = read
    if shape != value.shape or dtype != value.dtype or not dense:
        return None
    header, length = members[name.removesuffix("data.pkl") + f"data/{key}"]
    size = _SIZES[dtype]
    count = math.prod(shape)
    first = _start(whole, header) + offset * size
    if offset < 0 or (offset + count) * size > length or first + count * size > len(whole):
        return None
    return first, first + count * size


def _members(whole: Bytes) -> dict[str, tuple[int, int]]:
    """The position of each uncompressed zip member's header, and its number of bytes."""
    # The directory of one tensor is short; a comment may follow it.
    for length in (1 << 11, 1 << 16):
        tail = bytes(whole[-length:])
        place = tail.rfind(b"PK\x05\x06")
        if place >= 0:
            break
    else:
        raise ValueError("no zip")
    count, size, at = _DIRECTORY_END.unpack_from(tail, place)[4:7]
    end = at + size
    if count > _MOST_MEMBERS or end > len(whole):
        raise ValueError("no directory of one tensor")
    found = {}
    for _ in range(count):
        entry = _DIRECTORY_ENTRY.unpack_from(whole, at)
        at += 46
        after = at + entry[10]
        if after > end:
            raise ValueError("a directory that does not end where it says")
        if entry[4] == 0 and entry[8] == entry[9]:
            found[str(whole[at:after], "utf-8", "replace")] = (entry[16], entry[9])
        at = after + entry[11] + entry[12]
    return found


def _start(whole: Bytes, header: int) -> int:
    """The position of a member's bytes, which follow its own header of variable length."""
    head = bytes(whole[header : header + 30])
    if len(head) != 30 or head[:4] != b"PK\x03\x04":
        raise ValueError("no member where the directory says")
    return header + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")


@functools.lru_cache(maxsize=4096)
def _tensor(pickled: bytes) -> tuple[str, str, int, tuple[int, ...], bool] | None:
    """The dtype, storage key, offset and shape of a tensor, and whether its elements are contiguous.

    The result is None if the pickle is not one plain tensor.
    """
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


def _arguments(words: list[object], dtype: str) -> tuple[str, str, int, tuple[int, ...], bool] | None:
    at = words.index("storage")
    key = words[at + 2]
    end = words.index(("BINPERSID",))
    offset = words[end + 1]
    if not isinstance(key, str) or not key.isdecimal() or type(offset) is not int:
        return None
    shape, next_at = _tuple(words, end + 2)
    strides, _ = _tuple(words, next_at)
    if len(shape) != len(strides):
        return None
    dense = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    return dtype, key, offset, shape, strides == dense or math.prod(shape) <= 1


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
