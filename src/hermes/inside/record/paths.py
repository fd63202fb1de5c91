"""Names of modules, parameters and buffers, whether or not the model was wrapped or compiled."""

from __future__ import annotations

from typing import Any

_WRAPPERS = {
    "DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module", "CheckpointWrapper": "_checkpoint_wrapped_module",
    "DeepSpeedEngine": "module", "_FabricModule": "_forward_module", "Float16Module": "module",
}  # fmt: skip


class Paths:
    """Numbers modules by path. A module that is called with none around it is a root; its class begins its paths."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._names: list[str] = []
        self._types: list[str] = []
        self._roots: set[str] = set()
        self._fresh: list[int] = []
        self.tensors: dict[int, tuple[str, str]] = {}
        """Names of parameters and buffers by the address of their data, with which of the two they are."""

    def number(self, module: Any, parent: int | None) -> int:
        """The number of a module that is called inside of `parent`."""
        found = self._numbers.get(id(module))
        if found is not None:
            return found
        if parent is None:
            self._root(module)
        else:
            self._walk(module, f"{self._names[parent]}.{type(module).__name__}")
        return self._numbers[id(module)]

    def name(self, number: int | None) -> str:
        """The path; empty outside of all modules."""
        return self._names[number] if number is not None else ""

    def new(self) -> list[dict[str, Any]]:
        """Lines for the index of the modules that are new since the last call."""
        fresh, self._fresh = self._fresh, []
        return [{"module": number, "path": self._names[number], "type": self._types[number]} for number in fresh]

    def forget(self) -> None:
        """Let go of the modules; their numbers stay."""
        self._kept.clear()
        self._numbers.clear()
        self._roots.clear()
        self.tensors.clear()

    def refresh(self) -> None:
        """Look up parameters and buffers again: optimizers and wrappers may have moved them."""
        self.tensors.clear()
        for module in self._kept:
            number = self._numbers.get(id(module))
            if number is not None:
                self._tensors_of(module, self._names[number])

    def _root(self, module: Any) -> None:
        label = base = type(_unwrapped(module)).__name__
        count = 1
        while label in self._roots:
            count += 1
            label = f"{base}#{count}"
        self._roots.add(label)
        self._walk(module, label)

    def _walk(self, module: Any, path: str) -> None:
        if id(module) in self._numbers:
            return
        inner = _WRAPPERS.get(type(module).__name__, "")
        self._numbers[id(module)] = self._number_of(path, type(module).__name__)
        self._kept.append(module)
        self._tensors_of(module, path)
        for name, child in module.named_children():
            self._walk(child, path if name == inner else f"{path}.{name}")

    def _number_of(self, path: str, kind: str) -> int:
        self._names.append(path)
        self._types.append(kind)
        number = len(self._names) - 1
        self._fresh.append(number)
        return number

    def _tensors_of(self, module: Any, path: str) -> None:
        for kind, found in (("parameter", module._parameters), ("buffer", module._buffers)):
            for name, tensor in found.items():
                if tensor is not None:
                    local = plain(tensor)
                    if local is not None and local.numel():
                        self.tensors[local.data_ptr()] = (f"{path}.{name}", kind)


def _unwrapped(module: Any) -> Any:
    for _ in range(8):
        inner = _WRAPPERS.get(type(module).__name__)
        child = module._modules.get(inner) if inner else None
        if child is None:
            return module
        module = child
    return module


def plain(tensor: Any) -> Any:
    """The tensor whose memory this process holds: the shard of one that is spread over ranks. None where there is
    none."""
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        tensor = local
    if type(tensor).__name__ == "FakeTensor":
        return None  # a shape without memory
    try:
        tensor.data_ptr()
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    return tensor
