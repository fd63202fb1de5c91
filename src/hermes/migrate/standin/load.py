"""Loads what a program saved on the NPU, by each form of `map_location`.

Part of the stand-in for torch_npu. Runs inside the user's program, imports torch and nothing of Hermes.
"""

from __future__ import annotations

from typing import Any

import torch

from . import npu_tensor


def of(original: Any) -> Any:
    """`torch.load` that puts what was saved on the NPU where it was, or where the program asks for."""

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
    """Memory of the host that says where a program would move it: there is none of the NPU here to move it to."""

    where = "cpu"

    def to(self, *, device: Any, non_blocking: bool = False) -> _Memory:
        self.where = str(device)
        return self


def _asked(place: Any) -> str | None:
    """Where a function given as `map_location` puts what was saved on the NPU; None where torch decides."""
    found = place(_Memory(0), "npu:0")
    return None if found is None else str(getattr(found, "where", found.device))
