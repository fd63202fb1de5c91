"""Appends tensors to files in the layout of safetensors, within a limit of bytes."""

from __future__ import annotations

import ctypes
import json
import math
import os
from typing import Any

from hermes.inside.record.layout import DATA_START, DTYPES, LARGEST_HEADER
from hermes.inside.wire.open_files import OpenFile

_MOST_AT_ONCE = 1 << 30


class TensorFiles:
    """The parts of one rank's recording. `write` returns the place of a tensor, or None where the limit leaves no
    room."""

    def __init__(self, folder: str, limit: int) -> None:
        self._folder = folder
        self._left = min(limit, _free(folder))
        self._step = 0
        self._file: OpenFile | None = None
        self._part = 0
        self._name = ""
        self._at = 0
        self._entries: dict[str, Any] = {}
        self._header_bytes = 0

    def begin(self, step: int) -> None:
        """Begin a step: tensors written from here on belong to it."""
        self.end()
        self._step, self._part = step, 0

    def write(self, name: str, tensor: Any) -> list[Any] | None:
        """Append the bytes of a torch tensor; returns its part, begin and end, in bytes from the start of the data."""
        dtype = str(tensor.dtype).replace("torch.", "")
        if not self.takes(dtype, tensor.numel()):
            return None
        host = tensor.detach().cpu().contiguous()
        return self.write_memory(name, dtype, list(tensor.shape), host.data_ptr())

    def takes(self, dtype: str, count: int) -> bool:
        """Whether `count` elements are of a known type, and fit below the limit."""
        kind = DTYPES.get(dtype)
        return kind is not None and count * kind[1] + DATA_START <= self._left

    def write_memory(self, name: str, dtype: str, shape: list[int], pointer: int) -> list[Any]:
        """Append dense elements from a memory address; `takes` must have accepted them."""
        kind = DTYPES[dtype]
        size = math.prod(shape) * kind[1]
        if self._file is None or self._header_bytes + len(name) + 96 + 12 * len(shape) > LARGEST_HEADER:
            self._open()
        begin = self._at
        # Elements begin at multiples of eight bytes, to be mapped.
        end = begin + size
        if size:
            self._append(pointer, size, DATA_START + begin)
        self._at = end
        pad = -end % 8
        if pad:
            os.pwrite(self._number(), b"\0" * pad, DATA_START + end)
            self._entries[f"_{begin}"] = {"dtype": "U8", "shape": [pad], "data_offsets": [end, end + pad]}
            self._header_bytes += 80
            self._at += pad
        self._left -= size + pad
        self._entries[name] = {"dtype": kind[0], "shape": shape, "data_offsets": [begin, end]}
        self._header_bytes += len(json.dumps(name)) + 80 + 12 * len(shape)
        return [self._name, begin, end]

    def end(self) -> None:
        """Write the header of the part, which makes the part a file that safetensors opens."""
        if self._file is None:
            return
        text = json.dumps(self._entries, separators=(",", ":")).encode()
        if len(text) <= LARGEST_HEADER:
            # A header ends in spaces, which fill the reserved length.
            os.pwrite(self._file.number, LARGEST_HEADER.to_bytes(8, "little"), 0)
            os.pwrite(self._file.number, text + b" " * (LARGEST_HEADER - len(text)), 8)
        self._file.close()
        self._file, self._entries, self._header_bytes, self._at = None, {}, 0, 0

    def _number(self) -> int:
        assert self._file is not None
        return self._file.number

    def _append(self, pointer: int, size: int, place: int) -> None:
        view = memoryview((ctypes.c_char * size).from_address(pointer)).cast("B")
        done = 0
        while done < size:
            done += os.pwrite(self._number(), view[done : done + _MOST_AT_ONCE], place + done)

    def _open(self) -> None:
        self.end()
        self._name = f"step{self._step}.{self._part:03}.safetensors"
        self._part += 1
        path = os.path.join(self._folder, self._name)  # noqa: PTH118
        flags = os.O_RDWR | os.O_CLOEXEC
        self._file = OpenFile(os.open(path, flags | os.O_CREAT | os.O_TRUNC, 0o644), lambda: os.open(path, flags))
        self._left -= DATA_START


def _free(folder: str) -> int:
    """Nine tenths of the free disk space in bytes: a recording must not fill the disk."""
    folder = os.path.abspath(folder)  # noqa: PTH100
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:  # noqa: PTH112, PTH120
        folder = os.path.dirname(folder)  # noqa: PTH120 - it is made when a step begins
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return int(found.f_bavail * found.f_frsize * 0.9)
