"""Numbers the tensors of a step: one that is seen again unchanged is the same value, and is looked at once."""

from __future__ import annotations

import math
import weakref
from typing import Any

from hermes.inside.record.options import Options
from hermes.inside.record.pack import Pack
from hermes.inside.record.paths import Paths, plain
from hermes.inside.record.stats import Fingerprints, Statistics


class Values:
    """The values of one step and the lines that say what they are.

    Where all operators are recorded, and so every write is seen, a tensor is recognised by its block of memory and the
    place in it; else by the object.
    """

    def __init__(self, torch: Any, options: Options, pack: Pack, paths: Paths) -> None:
        self._torch = torch
        self._options = options
        self._pack = pack
        self._paths = paths
        self._statistics = Statistics(torch)
        self._fingerprints = Fingerprints(torch)
        self._trusting = options.operators and not options.narrow and hasattr(torch.UntypedStorage, "_weak_ref")
        self._held: list[Any] = []
        self.begin()

    def begin(self) -> None:
        """Forget all values: a step begins."""
        self.lines: list[dict[str, Any]] = []
        self.dropped = 0
        self._release()
        self._at: dict[int, dict[Any, tuple[int, int]]] = {}
        self._objects: dict[int, tuple[Any, int, int]] = {}
        self._writers: dict[int, int] = {}

    def _release(self) -> None:
        """Let go of the memory blocks of a step. While one is held weakly, no other block has its identity."""
        for held in self._held:
            self._torch.UntypedStorage._free_weak_ref(held)
        self._held = []

    def collect(self) -> None:
        """Fetch what devices still hold."""
        self._statistics.collect()

    def of(
        self, tensor: Any, *, op: int | None = None, base: int | None = None, version: int | None = None
    ) -> int | None:
        """The number of a value. `op` made it just now; `base` is the value that it is a view of, with its version."""
        local = plain(tensor)
        if local is None or local.layout is not self._torch.strided:
            return None
        if op is None:
            known = self._known(local)
            if known is not None:
                return known
        number = len(self.lines)
        line: dict[str, Any] = {
            "value": number, "dtype": str(local.dtype)[6:], "shape": list(local.shape), "device": local.device.type,
        }  # fmt: skip
        self.lines.append(line)
        pointer = self._remember(local, number, version, fresh=op is not None and base is None)
        if base is not None:
            self._view(line, local, base)
            line["by"] = op
        else:
            if op is None:
                self._origin(line, local, pointer)
            else:
                line["by"] = op
                if self._trusting:
                    self._writers[_storage(local)] = op
            self._look(line, local)
        return number

    def wrote(self, tensor: Any, op: int) -> None:
        """An operator wrote into this tensor's memory: what is read there next was made by it."""
        local = plain(tensor)
        if local is not None and self._trusting:
            self._writers[_storage(local)] = op

    def _known(self, local: Any) -> int | None:
        version = _version(local)
        if self._trusting:
            entry = self._at.get(_storage(local), {}).get(_geometry(local))
            return entry[1] if entry is not None and entry[0] == version >= 0 else None
        seen = self._objects.get(id(local))
        if seen is None or seen[0]() is not local or seen[1] != version:
            return None
        return seen[2]

    def _remember(self, local: Any, number: int, version: int | None, *, fresh: bool) -> int:
        pointer: int = local.data_ptr()
        # A view counts versions with what it is a view of, but only once autograd has seen it.
        version = _version(local) if version is None else version
        if self._trusting:
            storage = local.untyped_storage()
            key = storage._cdata
            if key not in self._at:
                self._held.append(storage._weak_ref())
                self._at[key] = {}
            elif fresh:
                self._at[key] = {}
            self._at[key][_geometry(local)] = (version, number)
        else:
            self._objects[id(local)] = (weakref.ref(local), version, number)
        return pointer

    def _origin(self, line: dict[str, Any], local: Any, pointer: int) -> None:
        writer = self._writers.get(_storage(local)) if self._trusting else None
        if writer is not None:
            line["by"] = writer
        name = self._paths.tensors.get(pointer)
        if name is not None and local.numel():
            line["name"], line["role"] = name

    def _view(self, line: dict[str, Any], local: Any, base: int) -> None:
        line["view"] = [base, list(local.stride()), local.storage_offset()]
        if self._options.what == "fingerprint" and self._options.level == "modules":
            self._look(line, local)

    def _look(self, line: dict[str, Any], local: Any) -> None:
        what = self._options.what
        if what == "fingerprint":
            line["print"] = self._fingerprints.of(local)
            return
        if what == "tensors":
            line["stride"], line["offset"] = list(local.stride()), local.storage_offset()
            line["data"] = self._pack.write(f"value{line['value']}", self._sampled(line, local))
            if line["data"] is None:
                self.dropped += 1
            elif "sample" not in line:
                return
        self._statistics.of(local, _Row(line))

    def _sampled(self, line: dict[str, Any], local: Any) -> Any:
        """The tensor, or evenly spaced elements of one that is longer than asked for."""
        most = self._options.sample
        if not most or local.numel() <= most:
            return local
        line["sample"] = -(-local.numel() // most)
        return local.reshape(-1)[:: line["sample"]]


class _Row:
    """Puts a row of statistics into its line, now or when the device hands it over."""

    __slots__ = ("_line",)

    def __init__(self, line: dict[str, Any]) -> None:
        self._line = line

    def __call__(self, row: list[float] | None) -> None:
        self._line["stats"] = None if row is None else [jsonable(one) for one in row]


def jsonable(number: float) -> float | str:
    """A number that strict JSON holds, or its name."""
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def _version(local: Any) -> int:
    try:
        return int(local._version)
    except RuntimeError:
        return -1  # tensors of inference mode do not count their versions


def _storage(local: Any) -> int:
    """The identity of its block of memory."""
    return int(local.untyped_storage()._cdata)


def _geometry(local: Any) -> Any:
    return (local.storage_offset(), local.shape, local.stride(), local.dtype)
