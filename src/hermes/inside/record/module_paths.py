"""Names modules, parameters and buffers the same, whether or not the model was wrapped or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hermes.inside.record.numbered_modules import NumberedModules


class Paths(NumberedModules):
    """The numbers and paths of torch modules; `tensors` holds parameters and buffers by the address of their data."""

    wrappers = {  # noqa: RUF012 - of the base class
        "DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod",
        "FullyShardedDataParallel": "_fsdp_wrapped_module", "CheckpointWrapper": "_checkpoint_wrapped_module",
        "DeepSpeedEngine": "module", "_FabricModule": "_forward_module", "Float16Module": "module",
    }  # fmt: skip

    def forget(self) -> None:
        """Release the known torch modules, but keep their numbers."""
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

    def _children(self, part: Any) -> Iterator[tuple[str, Any]]:
        return iter(part.named_children())

    def _tensors_of(self, part: Any, path: str) -> None:
        for kind, found in (("parameter", part._parameters), ("buffer", part._buffers)):
            for name, tensor in found.items():
                if tensor is not None:
                    local = local_tensor(tensor)
                    if local is not None and local.numel():
                        self.tensors[local.data_ptr()] = (f"{path}.{name}", kind)


def local_tensor(tensor: Any) -> Any:
    """The tensor whose memory this process holds: for a tensor spread over ranks, its local shard. None without
    memory."""
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        tensor = local
    if type(tensor).__name__ == "FakeTensor":
        return None  # such a tensor has a shape, and no memory
    try:
        tensor.data_ptr()
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    return tensor
