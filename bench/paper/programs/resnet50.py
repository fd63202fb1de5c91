"""A program with a step of 17.2 ms and one worker that needs 90 ms a batch; `--after` starts twelve workers.

A worker waits for its storage: two cores can reproduce twelve workers that wait, but not twelve that decode.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import time
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")

BATCH_S, STEP_S = 0.090, 0.0172


class Pictures(data.IterableDataset):  # type: ignore[misc]
    """Batches of pictures that come from storage."""

    def __iter__(self) -> Any:
        while True:
            time.sleep(BATCH_S)
            yield torch.randn(8, 3, 32, 32), torch.arange(8)


def main() -> None:
    """Train; with `--after` say how long a step is, and end."""
    torch.set_num_threads(1)
    after = "--after" in sys.argv
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begun = []
    for x, y in data.DataLoader(Pictures(), batch_size=None, num_workers=12 if after else 1):
        begun.append(time.perf_counter())
        optimizer.zero_grad()
        while time.perf_counter() < begun[-1] + STEP_S:
            nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if after and len(begun) > 120:
            break
    steps = sorted(later - one for one, later in itertools.pairwise(begun[20:]))
    print(f"{1e3 * steps[len(steps) // 2]:.3f}")


if __name__ == "__main__":
    main()
