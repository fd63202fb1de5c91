"""A small real training whose input becomes slow half way; `--cure` lets workers wait for it instead of the step.

    python live_training.py STEPS [--cure]

Run as a script by `live_demo`; needs PyTorch and nothing of Hermes.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

_BATCH = 16
_READ_S = 0.0015


class Samples:
    """Samples that lie on a near disk in the first half, and on a far one in the second."""

    def __init__(self, torch: Any, steps: int) -> None:
        self._torch = torch
        self._steps = steps

    def __len__(self) -> int:
        return self._steps * _BATCH

    def __getitem__(self, number: int) -> Any:
        if number >= len(self) // 2:
            time.sleep(_READ_S)
        return self._torch.full((512,), float(number % 7)), number % 10


def train(steps: int, *, cure: bool) -> None:
    """Train that many steps on one thread."""
    torch: Any = importlib.import_module("torch")
    data: Any = importlib.import_module("torch.utils.data")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [part for _ in range(5) for part in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers: dict[str, int] = {"num_workers": 6, "prefetch_factor": 4} if cure else {"num_workers": 0}
    for x, y in data.DataLoader(Samples(torch, steps), batch_size=_BATCH, **workers):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    train(int(sys.argv[1]), cure="--cure" in sys.argv)
