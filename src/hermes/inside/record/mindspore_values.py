"""Numbers the MindSpore tensors of a step and describes each, as `values` does for tensors of torch.

Elements are read on the host, as numpy arrays, which MindSpore itself brings: a computation with MindSpore would become
part of the graph that is being differentiated.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from hermes.inside.record.layout import CHUNK, PROJECTIONS, sign_bytes
from hermes.inside.record.options import Options
from hermes.inside.record.stats import FINGERPRINT_SEEDS, drawn_words
from hermes.inside.record.tensor_files import TensorFiles

_CHUNKS = 1 << 14
_MIX = 0x100000001B3


class CellValues:
    """The values of one step. A tensor seen again has the same number; a parameter has it until an optimizer ran."""

    def __init__(self, mindspore: Any, options: Options, pack: TensorFiles, names: dict[int, tuple[str, str]]) -> None:
        self._tensor = mindspore.Tensor
        self._bfloat16 = getattr(mindspore, "bfloat16", None)
        self._float32 = mindspore.float32
        self._options = options
        self._pack = pack
        self._names = names
        self._device = str(mindspore.get_context("device_target")).lower()
        self._numbers = Numbers(sys.modules["numpy"])
        self.begin()

    def begin(self) -> None:
        """Forget all values: a step begins, or parameters were written."""
        self.lines: list[dict[str, Any]] = []
        self.dropped = 0
        self._known: dict[int, tuple[Any, int]] = {}

    def forget(self) -> None:
        """Keep the numbers of values, but recognise no tensor: an optimizer wrote into parameters."""
        self._known.clear()

    def tensors(self, found: Any, depth: int = 0) -> list[Any]:
        """All tensors of arguments or of a result, in their order."""
        if isinstance(found, self._tensor):
            return [found]
        if depth > 6 or not isinstance(found, (list, tuple, dict)):
            return []
        parts = found.values() if isinstance(found, dict) else found
        return [one for part in parts for one in self.tensors(part, depth + 1)]

    def of(self, tensor: Any, *, op: int | None = None) -> int:
        """The number of a tensor's value; `op` is the call that has just returned the tensor."""
        seen = self._known.get(id(tensor))
        if op is None and seen is not None and seen[0]() is tensor:
            return seen[1]
        number = len(self.lines)
        dtype = str(tensor.dtype).lower().replace("mindspore.", "")
        line: dict[str, Any] = {
            "value": number, "dtype": dtype, "shape": list(tensor.shape), "device": self._device,
        }  # fmt: skip
        self.lines.append(line)
        if op is not None:
            line["by"] = op
        name = self._names.get(id(tensor))
        if name is not None:
            line["name"], line["role"] = name
        self._known[id(tensor)] = weakref.ref(tensor), number
        self._look(line, tensor)
        return number

    def _look(self, line: dict[str, Any], tensor: Any) -> None:
        what, dtype = self._options.what, line["dtype"]
        if self._bfloat16 is not None and tensor.dtype == self._bfloat16:
            tensor = tensor.astype(self._float32)  # numpy knows float32, which holds each number of this type
        array = self._numbers.host(tensor.asnumpy())
        bits = self._numbers.upper_half(array) if dtype == "bfloat16" else array
        if what == "fingerprint":
            line["print"] = self._numbers.print_of(bits)
            return
        if what == "tensors" and self._write(line, bits, dtype) and "sample" not in line:
            return
        line["stats"] = self._numbers.row(array)

    def _write(self, line: dict[str, Any], array: Any, dtype: str) -> bool:
        most, numpy = self._options.sample, self._numbers.numpy
        flat = array.reshape(-1)
        if most and flat.size > most:
            line["sample"] = -(-flat.size // most)
            flat = numpy.ascontiguousarray(flat[:: line["sample"]])
        if not self._pack.takes(dtype, flat.size):
            self.dropped += 1
            line.pop("sample", None)
            return False
        shape = line["shape"] if "sample" not in line else [flat.size]
        line["data"] = self._pack.write_memory(f"value{line['value']}", dtype, shape, flat.ctypes.data)
        return True


class Numbers:
    """Statistics and fingerprints of arrays, as `layout.STATISTICS` defines them."""

    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy
        np = numpy
        drawn = (sign_bytes(CHUNK), sign_bytes(_CHUNKS, of_chunks=True))
        self._signs, self._chunk_signs = (np.frombuffer(one, np.uint8) * 2.0 - 1 for one in drawn)
        self._weights: tuple[Any, Any] | None = None

    def host(self, array: Any) -> Any:
        """The dense elements of an array on the host, in their order."""
        return self.numpy.ascontiguousarray(array)

    def upper_half(self, array: Any) -> Any:
        """The bits of bfloat16 numbers, taken from the upper half of float32 numbers."""
        return (array.view(self.numpy.uint32) >> 16).astype(self.numpy.uint16)

    def row(self, array: Any) -> list[float] | None:
        """The statistics of an array; None for an array without elements."""
        np = self.numpy
        if not array.size:
            return None
        wide = array.view(array.real.dtype) if array.dtype.kind == "c" else array
        flat = wide.reshape(-1).astype(np.float64)
        with np.errstate(all="ignore"):
            ends = [float(flat.min()), float(flat.max()), float(flat.mean()), float(np.sqrt(np.dot(flat, flat)))]
            counts = [float(np.isnan(flat).sum()), float(np.isinf(flat).sum()), float((flat == 0).sum())]
            return [*ends, *counts, *self._signed(flat)]

    def _signed(self, flat: Any) -> list[float]:
        whole = flat.size - flat.size % CHUNK
        sums = self.numpy.zeros(PROJECTIONS)
        for first in range(0, whole, CHUNK):
            part = (flat[first : first + CHUNK] * self._signs).reshape(PROJECTIONS, -1).sum(1)
            sums += part * self._chunk_signs[first // CHUNK % _CHUNKS]
        tail = flat[whole:] * self._signs[: flat.size - whole]
        if tail.size:
            even = tail.size // PROJECTIONS * PROJECTIONS
            part = tail[:even].reshape(PROJECTIONS, -1).sum(1)
            part[-1] += tail[even:].sum()
            sums += part * self._chunk_signs[whole // CHUNK % _CHUNKS]
        found: list[float] = sums.tolist()
        return found

    def print_of(self, array: Any) -> str:
        """A fingerprint of the array's bits in their order: equal to that of `stats.Fingerprints`."""
        if not array.size:
            return "0" * 16
        np = self.numpy
        flat = array.reshape(-1)
        if array.dtype == np.bool_:
            words = flat.astype(np.int32)
        elif array.dtype.itemsize >= 4:
            words = flat.view(np.int32)
        else:
            words = flat.view(np.int16 if array.dtype.itemsize == 2 else np.uint8).astype(np.int32)
        if self._weights is None:
            mask, weight = (np.frombuffer(drawn_words(seed), np.int32) for seed in FINGERPRINT_SEEDS)
            self._weights = mask, weight | 1
        total = 0
        for number, first in enumerate(range(0, words.size, CHUNK)):
            part = words[first : first + CHUNK]
            mixed = (part ^ self._weights[0][: part.size]) * self._weights[1][: part.size]
            mixed = mixed ^ (mixed >> 15)
            total = (total * _MIX + int(mixed.sum(dtype=np.int64)) + number) % (1 << 64)
        return f"{total:016x}"
