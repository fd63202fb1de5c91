"""Maps the elements of recorded tensors from their files; nothing is copied until it is read."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hermes.precision.read import npyfile, torchfile
from hermes.precision.recorded_step import WHERE_THE_FILE_SAYS, ElementsPlace, RecordedStep, RecordedValue

Array = npt.NDArray[np.generic]
_NUMPY = {
    "float64": np.float64, "float32": np.float32, "float16": np.float16, "int64": np.int64, "int32": np.int32,
    "int16": np.int16, "int8": np.int8, "uint8": np.uint8, "bool": np.bool_, "complex64": np.complex64,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "complex128": np.complex128, "bfloat16": np.uint16,
    "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8,
}  # fmt: skip
_LARGEST_BASE = 1 << 33
_LARGEST_SMALL_VIEW, _MOST_TIMES = 1 << 26, 64
"""The least size of a view's limit in elements, and the limit as a multiple of its base: views may repeat elements."""


class Files:
    """Maps each file once. A file shorter than its index says yields no elements for the missing part."""

    def __init__(self) -> None:
        self._maps: dict[Path, memoryview | None] = {}
        self.unread: set[Path] = set()
        """Files that should hold one tensor and do not: missing, damaged, or more than a plain tensor."""

    def raw(self, place: ElementsPlace) -> memoryview | None:
        """The bytes at a place; None if the file does not have them."""
        if place.path not in self._maps:
            self._maps[place.path] = _mapped(place.path)
        whole = self._maps[place.path]
        if whole is None or not 0 <= place.begin <= place.end <= len(whole):
            return None
        return whole[place.begin : place.end]

    def bits(self, value: RecordedValue) -> Array | None:
        """The elements in the order of the tensor; bfloat16 and float8 as integers with the same bits."""
        if value.data is None or value.dtype not in _NUMPY:
            return None
        raw = self._told(value, value.data.path) if value.data.end == WHERE_THE_FILE_SAYS else self.raw(value.data)
        return None if raw is None else np.frombuffer(raw, dtype=_NUMPY[value.dtype])

    def _told(self, value: RecordedValue, path: Path) -> memoryview | None:
        """The elements in a file that gives their position itself; such files are many, and each is read about once."""
        whole = _content(path)
        reader = npyfile if path.suffix == ".npy" else torchfile
        span = None if whole is None else reader.span(whole, value)
        if whole is None or span is None:
            self.unread.add(path)
            return None
        return memoryview(whole)[span[0] : span[1]]

    def not_finite(self, step: RecordedStep, number: int) -> tuple[float, float]:
        """The number of NaN and of infinite elements of a value; 0 if not recorded."""
        value = step.values[number]
        depth = 0
        while value.view is not None and value.stats is None and depth < 64:
            value, depth = step.values[value.view.base], depth + 1
        if value.stats is not None:
            return value.stats[4], value.stats[5]
        found = self.flat(step, number)
        if found is None:
            return 0.0, 0.0
        elements = numbers(*found)
        return float(np.isnan(elements).sum()), float(np.isinf(elements).sum())

    def flat(self, step: RecordedStep, number: int) -> tuple[Array, str] | None:
        """The elements of a value in its order, as by `bits`, with its dtype; those of a view come from its base."""
        value = step.values[number]
        if value.view is None:
            found = self.bits(value)
            return None if found is None else (found, value.dtype)
        base = step.values[value.view.base]
        depth = 0
        while base.view is not None and depth < 64:
            base, depth = step.values[base.view.base], depth + 1
        found = self.bits(base)
        if found is None or base.data is None or base.data.sample != 1 or base.dtype != value.dtype:
            return None
        memory = _as_stored(found, base)
        shown = None if memory is None else _shown(memory, value, base)
        return None if shown is None else (shown, value.dtype)


_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAPPED_FROM = 4 << 20
"""The bytes from which a file is mapped: copying a smaller file costs less than mapping its pages."""


def _mapped(path: Path) -> memoryview | None:
    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)


def _content(path: Path) -> bytes | memoryview | None:
    """All bytes of a file: copied if they are few."""
    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        size = os.fstat(file).st_size
        return os.pread(file, size, 0) if size < _MAPPED_FROM else _mapped(path)
    except OSError:
        return None
    finally:
        os.close(file)


def _as_stored(flat: Array, base: RecordedValue) -> Array | None:
    """The memory of a tensor from its first element on, rebuilt from the tensor's elements and strides."""
    if not base.strides or len(base.strides) != len(base.shape):
        return flat
    dense = _dense(base.shape)
    if base.strides == dense:
        return flat
    span = 1 + sum((size - 1) * abs(stride) for size, stride in zip(base.shape, base.strides, strict=True))
    if span > _LARGEST_BASE or span > 4 * max(len(flat), 1) or min(base.strides, default=0) < 0:
        return None
    memory = np.zeros(span, dtype=flat.dtype)
    steps = tuple(one * flat.itemsize for one in base.strides)
    np.lib.stride_tricks.as_strided(memory, base.shape, steps)[...] = flat.reshape(base.shape)
    return memory


def _shown(memory: Array, value: RecordedValue, base: RecordedValue) -> Array | None:
    assert value.view is not None
    offset, strides = value.view.offset - base.offset, value.view.strides
    if len(strides) != len(value.shape) or min(strides, default=0) < 0 or offset < 0 or not value.count:
        return None
    last = offset + sum((size - 1) * stride for size, stride in zip(value.shape, strides, strict=True))
    if last >= len(memory) or value.count > max(_LARGEST_SMALL_VIEW, _MOST_TIMES * len(memory)):
        return None
    if strides == _dense(value.shape):
        return memory[offset : offset + value.count]
    steps = tuple(one * memory.itemsize for one in strides)
    shown = np.lib.stride_tricks.as_strided(memory[offset:], value.shape, steps, writeable=False)
    return np.ascontiguousarray(shown).reshape(-1)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))


def numbers(bits: Array, dtype: str) -> npt.NDArray[np.float64]:
    """Elements as float64; each complex element as two numbers."""
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "float8_e4m3fn":
        found: npt.NDArray[np.float64] = _E4M3[bits.astype(np.uint8)]
        return found
    if dtype == "float8_e5m2":
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    if dtype.startswith("complex"):
        return bits.view(np.float32 if dtype == "complex64" else np.float64).astype(np.float64)
    return bits.astype(np.float64)


def _e4m3() -> npt.NDArray[np.float64]:
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    size = np.where((codes & 127) == 127, np.nan, size)
    found: npt.NDArray[np.float64] = np.where(codes < 128, size, -size)
    return found


_E4M3 = _e4m3()
