"""Reads one tensor out of a `.pt` file of torch without unpickling it, and leaves what is not plain to torch itself.

A file that `torch.save` wrote of one tensor is a zip, uncompressed, with a pickle that calls one known function with
known
arguments. The pickle's opcodes are listed, never run: what does not read like such a call goes to torch's weights-only
loader, in a process of its own with a limit on memory.
"""

from __future__ import annotations

import json
import math
import pickletools
import subprocess
import sys
import tempfile
import zipfile
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
_SECONDS = 120
_MEMORY_BYTES = 16 << 30
_LOADER = """
import resource, sys, json
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]),) * 2)
import torch
torch.set_num_threads(1)
found = torch.load(sys.argv[1], map_location="cpu", weights_only=True).detach().contiguous()
view = found.view(torch.uint8) if found.dim() else found.reshape(1).view(torch.uint8)
with open(sys.argv[2], "wb") as out:
    out.write(bytes(view.reshape(-1).tolist()) if found.numel() < 1 << 16 else view.reshape(-1).numpy().tobytes())
print(json.dumps([str(found.dtype)[6:], list(found.shape)]))
"""


def place(path: Path, value: Value) -> Value:
    """The value with the place and the strides of its elements; without a place where the file cannot be read."""
    try:
        found = _plain(path, value)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, IndexError, KeyError):
        found = None
    return found if found is not None else value._replace(data=None)


def _plain(path: Path, value: Value) -> Value | None:
    if path.is_symlink() or path.stat().st_size > _LARGEST_FILE:
        return None
    with zipfile.ZipFile(path) as file:
        pickled = next((one for one in file.infolist() if one.filename.endswith("/data.pkl")), None)
        if pickled is None or pickled.file_size > _LARGEST_PICKLE:
            return None
        read = _tensor(file.read(pickled))
        if read is None:
            return None
        dtype, key, offset, shape, strides = read
        data = file.getinfo(pickled.filename.removesuffix("data.pkl") + f"data/{key}")
        if data.compress_type != zipfile.ZIP_STORED:
            return None
        begin = _start(path, data)
    dense = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    size = _SIZES[dtype]
    count = math.prod(shape)
    if shape != value.shape or dtype != value.dtype or (strides != dense and count > 1):
        return None
    first = begin + offset * size
    if offset < 0 or (offset + count) * size > data.file_size:
        return None
    return value._replace(data=Place(path, first, first + count * size))


def _start(path: Path, data: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin: behind its own header, whose length only it knows."""
    with path.open("rb") as file:
        file.seek(data.header_offset)
        head = file.read(30)
    if len(head) != 30 or head[:4] != b"PK\x03\x04":
        raise ValueError("no member where the directory says")
    return data.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")


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


def by_torch(path: Path, value: Value, python: str = sys.executable) -> tuple[bytes, str, tuple[int, ...]] | None:
    """Elements, dtype and shape, as torch's weights-only loader reads them in a process of its own."""
    with tempfile.NamedTemporaryFile() as out:
        command = [python, "-I", "-c", _LOADER, str(path), out.name, str(_MEMORY_BYTES)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
            if done.returncode:
                return None
            dtype, shape = json.loads(done.stdout)
            return Path(out.name).read_bytes(), str(dtype), tuple(int(one) for one in shape)
        except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
            return None
