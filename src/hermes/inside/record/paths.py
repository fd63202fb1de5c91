"""Names of modules, parameters and buffers, whether or not the model was wrapped or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hermes.inside.record.numbered import Numbered


class Paths(Numbered):
    """Numbers modules by path; `tensors` has parameters and buffers by the address of their data."""

    wrappers = {  # noqa: RUF012 - of the base class
        "DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod",
        "FullyShardedDataParallel": "_fsdp_wrapped_module", "CheckpointWrapper": "_checkpoint_wrapped_module",
        "DeepSpeedEngine": "module", "_FabricModule": "_forward_module", "Float16Module": "module",
    }  # fmt: skip

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

    def _children(self, part: Any) -> Iterator[tuple[str, Any]]:
        return iter(part.named_children())

    def _tensors_of(self, part: Any, path: str) -> None:
        for kind, found in (("parameter", part._parameters), ("buffer", part._buffers)):
            for name, tensor in found.items():
                if tensor is not None:
                    local = plain(tensor)
                    if local is not None and local.numel():
                        self.tensors[local.data_ptr()] = (f"{path}.{name}", kind)


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
