"""Recordings written by hand, in the layout of the recorder: small programs whose numbers are all known."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from hermes.inside.record.layout import (
    CHUNK,
    DATA_START,
    FORMAT,
    INDEX,
    PROJECTIONS,
    sign_bytes,
)

_NAMES = {"float32": "F32", "float16": "F16", "int64": "I64"}


def statistics(array: np.ndarray) -> list[Any]:
    """The statistics that the recorder writes for these elements; for tensors of one chunk."""
    flat = array.astype(np.float64).reshape(-1)
    signs = np.frombuffer(sign_bytes(CHUNK), np.uint8)[: len(flat)] * 2.0 - 1
    first = 2.0 * sign_bytes(1 << 14, of_chunks=True)[0] - 1
    even = len(flat) // PROJECTIONS * PROJECTIONS
    signed = flat * signs
    with np.errstate(invalid="ignore"):
        sums = signed[:even].reshape(PROJECTIONS, -1).sum(1)
        sums[-1] += signed[even:].sum()
    row = [flat.min(), flat.max(), flat.mean(), math.sqrt((flat**2).sum()), np.isnan(flat).sum(), np.isinf(flat).sum()]
    return [_strict(float(one)) for one in [*row, (flat == 0).sum(), *(first * sums)]]


def _strict(number: float) -> float | str:
    return number if math.isfinite(number) else "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


class Drawing:
    """A writer of a recording: one step of one rank, operator by operator."""

    def __init__(self, folder: Path, *, rank: int = 0, tensors: bool = False, steps: tuple[int, ...] = (0,)) -> None:
        self.folder = folder / f"rank{rank}"
        self.folder.mkdir(parents=True)
        self._tensors = tensors
        what = "tensors" if tensors else "statistics"
        self.lines: list[dict[str, Any]] = [
            {"format": FORMAT, "framework": "pytorch", "rank": rank, "options": {"what": what, "level": "operators"}}
        ]
        self._modules: dict[str, int] = {}
        self.step(steps[0])

    def step(self, number: int) -> None:
        self._step, self._values, self._ops = number, 0, 0
        self._data = b""
        self.lines.append({"step": number, "rng": ""})

    def value(self, array: np.ndarray, *, by: int | None = None, **more: Any) -> int:
        line: dict[str, Any] = {
            "value": self._values, "dtype": str(array.dtype), "shape": list(array.shape), **more,
        }  # fmt: skip
        if by is not None:
            line["by"] = by
        if self._tensors:
            raw = array.tobytes()
            line["data"] = [f"step{self._step}.000.safetensors", len(self._data), len(self._data) + len(raw)]
            self._data += raw
        else:
            line["stats"] = statistics(array)
        self.lines.append(line)
        self._values += 1
        return self._values - 1

    def op(self, name: str, inputs: list[int], *outputs: np.ndarray, module: str = "", phase: str = "forward",
           args: Any = None, line: int = 0, **more: Any) -> list[int]:  # fmt: skip
        found = [self.value(one, by=self._ops) for one in outputs]
        entry: dict[str, Any] = {"op": name, "n": self._ops, "phase": phase, "in": inputs, "out": found, "args": args}
        if module:
            if module not in self._modules:
                self._modules[module] = len(self._modules)
                self.lines.insert(1, {"module": self._modules[module], "path": module, "type": "Linear"})
            entry["module"] = self._modules[module]
        if line:
            self.lines.insert(1, {"stack": line, "frames": [["train.py", line, "forward", f"code {line}"]]})
            entry["stack"] = line
        self.lines.append({**entry, **more})
        self._ops += 1
        return found

    def close(self, *, whole: bool = True) -> Path:
        if whole:
            self.lines.append({"end": self._step, "dropped": 0})
        text = "\n".join(json.dumps(line, allow_nan=False) for line in self.lines) + "\n"
        (self.folder / INDEX).write_text(text)
        if self._tensors:
            head = struct.pack("<Q", DATA_START - 8) + b"{}".ljust(DATA_START - 8)
            (self.folder / f"step{self._step}.000.safetensors").write_bytes(head + self._data)
        return self.folder.parent


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
