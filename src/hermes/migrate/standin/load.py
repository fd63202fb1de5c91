"""Loads tensors that a program saved on the NPU, for each form of `map_location`.

Part of the stand-in for torch_npu. The module runs inside the user's program, and imports torch and nothing of Hermes.
"""

from __future__ import annotations

from typing import Any

import torch

from . import npu_tensor


def of(original: Any) -> Any:
    """A `torch.load` that puts tensors saved on the NPU back on the NPU, or where the program asks for."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        asked = _asked(map_location) if callable(map_location) else map_location
        kind = asked.type if isinstance(asked, torch.device) else asked
        if isinstance(kind, str) and kind.startswith("npu"):
            found = original(f, "cpu", *args, **kwargs)
            moves = isinstance(found, torch.nn.Module)
            return found.to(asked) if moves else npu_tensor.to_npu(found, torch.device(asked).index)
        return original(f, asked, *args, **kwargs)

    return load


class _Memory(torch.UntypedStorage):
    """Host memory that records the device to which a program would move it, since this machine has no NPU memory."""

    where = "cpu"

    def to(self, *, device: Any, non_blocking: bool = False) -> _Memory:
        self.where = str(device)
        return self


def _asked(place: Any) -> str | None:
    """Where a function given as `map_location` puts tensors saved on the NPU; None if torch decides."""
    found = place(_Memory(0), "npu:0")
    return None if found is None else str(getattr(found, "where", found.device))
