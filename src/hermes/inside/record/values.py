"""Numbers the tensors of a step: an unchanged tensor seen again is the same value, and is described once."""

from __future__ import annotations

import weakref
from typing import Any

from hermes.inside.error_guard import warnings_let_pass
from hermes.inside.record.journal import encode_value
from hermes.inside.record.module_paths import Paths, local_tensor
from hermes.inside.record.options import Options
from hermes.inside.record.stats import Fingerprints, Statistics
from hermes.inside.record.tensor_files import TensorFiles

_BITS = 32
_NUMBERS = (1 << _BITS) - 1


class Values:
    """The values of one step and the lines that describe them.

    Where all operators are recorded, and so every write is seen, a tensor is recognised by its block of memory and the
    place in the block. Otherwise a tensor is recognised by the Python object. Each value is kept as text and numbers,
    unless `lines` are read when the step has ended: thousands of lists and dictionaries would keep Python's collector
    busy.
    """

    def __init__(self, torch: Any, options: Options, pack: TensorFiles, paths: Paths) -> None:
        self._torch = torch
        self._options = options
        self._pack = pack
        self._paths = paths
        self._statistics = Statistics(torch, self._complete)
        self._fingerprints = Fingerprints(torch)
        self._trusting = options.operators and not options.narrow and hasattr(torch.UntypedStorage, "_weak_ref")
        self._types = (torch.Tensor, torch.nn.Parameter)
        self._dtypes: dict[Any, str] = {}
        self._held: list[Any] = []
        self.begin()

    def begin(self) -> None:
        """Forget the tensor values of the last step: a new step begins."""
        self.lines: list[Any] = []
        self.dropped = 0
        self._release()
        self._blocks: dict[int, int] = {}
        self._at: dict[int, int] = {}
        self._objects: dict[int, tuple[Any, int, int]] = {}
        self._writers: dict[int, int] = {}

    def _release(self) -> None:
        """Release the memory blocks of a step. While a block is held weakly, no other block has its identity."""
        for held in self._held:
            self._torch.UntypedStorage._free_weak_ref(held)
        self._held = []

    def collect(self) -> None:
        """Fetch the statistics that devices still hold."""
        self._statistics.collect()

    def of(
        self, tensor: Any, *, op: int | None = None, base: int | None = None, version: int | None = None
    ) -> int | None:
        """The number of a tensor's value. `op` has just made the tensor; `base` is the base value of a view, with its
        version."""
        local = tensor if type(tensor) in self._types else local_tensor(tensor)
        if local is None or local.is_meta:
            return None
        if self._trusting:
            return self._by_memory(local, op, base, version)
        return self._by_object(local, op, base)

    def _by_object(self, local: Any, op: int | None, base: int | None) -> int | None:
        if local.layout is not self._torch.strided:
            return None
        version = _version(local)
        if op is None:
            seen = self._objects.get(id(local))
            if seen is not None and seen[1] == version and seen[0]() is local:
                return seen[2]
        line = self._line(local, local.shape, local.dtype)
        number: int = line["value"]
        self._objects[id(local)] = (weakref.ref(local), version, number)
        if op is None:
            self._named(line, local)
        else:
            line["by"] = op
        if base is None:
            self._look(line, local)
        else:
            line["view"] = [base, list(local.stride()), local.storage_offset()]
            self._complete(line)
        return number

    def _by_memory(self, local: Any, op: int | None, base: int | None, version: int | None) -> int | None:
        try:
            storage = local.untyped_storage()
        except (RuntimeError, ValueError, NotImplementedError):
            return None  # sparse, or a shape without memory
        block = storage._cdata
        written = self._blocks.get(block)
        if written is None:
            self._held.append(storage._weak_ref())
            written = self._blocks[block] = 0
        elif op is not None and base is None:
            written = self._blocks[block] = written + 1
        shape, strides, offset = local.shape, local.stride(), local.storage_offset()
        place = hash((block, written, offset, shape, strides, local.dtype))
        if version is None:
            version = _version(local)
        if op is None:
            seen = self._at.get(place)
            if seen is not None and seen >> _BITS == version >= 0:
                return seen & _NUMBERS
        line = self._line(local, shape, local.dtype)
        number: int = line["value"]
        self._at[place] = version << _BITS | number
        if base is not None:
            line["view"] = [base, list(strides), offset]
            line["by"] = op
            self._complete(line)
            return number
        if op is not None:
            line["by"] = self._writers[block] = op
        else:
            writer = self._writers.get(block)
            if writer is not None:
                line["by"] = writer
            self._named(line, local)
        self._look(line, local)
        return number

    def wrote(self, tensor: Any, op: int) -> None:
        """Note that an operator wrote into this tensor's memory: a value read there next was made by that operator."""
        local = local_tensor(tensor)
        if local is not None and self._trusting:
            self._writers[local.untyped_storage()._cdata] = op

    def _line(self, local: Any, shape: Any, dtype: Any) -> dict[str, Any]:
        """The new line of a value that was not seen before."""
        text = self._dtypes.get(dtype)
        if text is None:
            text = self._dtypes[dtype] = str(dtype)[6:]
        line: dict[str, Any] = {
            "value": len(self.lines), "dtype": text, "shape": list(shape),
            "device": "cpu" if local.is_cpu else local.device.type,
        }  # fmt: skip
        self.lines.append(line)
        return line

    def _named(self, line: dict[str, Any], local: Any) -> None:
        name = self._paths.tensors.get(local.data_ptr())
        if name is not None and local.numel():
            line["name"], line["role"] = name

    def _look(self, line: dict[str, Any], local: Any) -> None:
        with warnings_let_pass():
            self._print(line, local)

    def _print(self, line: dict[str, Any], local: Any) -> None:
        what = self._options.what
        if what == "statistics":
            self._statistics.of(local, line)
            return
        if what == "fingerprint":
            line["print"] = self._fingerprints.of(local)
        else:
            line["stride"], line["offset"] = list(local.stride()), local.storage_offset()
            line["data"] = self._pack.write(f"value{line['value']}", self._sampled(line, local))
            if line["data"] is None:
                self.dropped += 1
            if line["data"] is None or "sample" in line:
                self._statistics.of(local, line)
                return
        self._complete(line)

    def _complete(self, line: dict[str, Any], row: list[float] | None = None) -> None:
        """Finish the line of a value, and encode it as text unless a ring needs it."""
        if row is not None:
            line["stats"] = row
        if not self._options.ring:
            self.lines[line["value"]] = encode_value(line)

    def _sampled(self, line: dict[str, Any], local: Any) -> Any:
        """The tensor, or evenly spaced elements of a tensor longer than the options ask for."""
        most = self._options.sample
        if not most or local.numel() <= most:
            return local
        line["sample"] = -(-local.numel() // most)
        return local.reshape(-1)[:: line["sample"]]


def _version(local: Any) -> int:
    try:
        return int(local._version)
    except RuntimeError:
        return -1  # tensors of inference mode do not count their versions
