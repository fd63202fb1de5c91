"""Runs a small training in which one thing changes half way: see `CHANGES`.

    python benchmarks/changing.py CHANGE STEPS FOLDER

`planted_changes.py` starts this script, for the change `slower-rank` once for each rank.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHANGES = (
    "input", "contention", "compilation", "slower-rank", "allocation", "longer-sequence", "synchronisation",
    "garbage-collection", "slow-disk", "foreign-process",
)  # fmt: skip
SLOW_S = 0.03
SLOW_RANK = 2
_BUSY = "import time; end = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
_MB = 1 << 20


class Text:
    """A data set of token rows, four a batch; from the middle on longer, or slow to read, if the change says so."""

    def __init__(self, torch: Any, change: str, steps: int) -> None:
        self._torch, self._change, self._steps = torch, change, steps

    def __len__(self) -> int:
        return 4 * self._steps

    def __getitem__(self, number: int) -> dict[str, Any]:
        late = number >= len(self) // 2
        if late and self._change == "input":
            time.sleep(SLOW_S / 4)
        length = 512 if late and self._change == "longer-sequence" else 64
        return {"input_ids": self._torch.full((length,), number % 97)}


def changed(change: str, torch: Any, folder: Path) -> Callable[[int], object]:
    """A function that does the additional work of a step after the change."""
    # After `gc.freeze`, which would exclude these objects from collections.
    junk: list[list[int]] = []
    compiled = torch.compile(lambda x: torch.nn.functional.gelu(x @ x.T).sum(), backend="aot_eager", dynamic=False)

    def work(step: int) -> object:
        if change == "compilation":
            torch._dynamo.config.cache_size_limit = 10_000
            return compiled(torch.ones(8 + step, 8))
        if change == "allocation":
            return [torch.empty(16 * _MB).fill_(1.0) for _ in range(1)]
        if change == "synchronisation":
            done = threading.Event()
            threading.Timer(SLOW_S, done.set).start()
            return done.wait()
        if change == "garbage-collection":
            junk.extend([number] for number in range(max(0, 300_000 - len(junk))))
            return gc.collect()
        if change == "slow-disk":
            return _written(folder / "state")
        if change == "slower-rank" and os.environ["RANK"] == str(SLOW_RANK):
            return time.sleep(SLOW_S)
        return None

    return work


def _written(path: Path) -> None:
    for _ in range(4):
        with path.open("wb") as file:
            file.write(b"x" * _MB)
            file.flush()
            os.fsync(file.fileno())


def begin(change: str, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Mark the change by a file, for the process of `foreign-process`, and start the busy processes of `contention`."""
    (folder / "changed").touch()
    many = 3 * (os.cpu_count() or 1) if change == "contention" else 0
    return [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(many)]


def batches(torch: Any, change: str, steps: int) -> Iterator[dict[str, Any]]:
    """The batches of the training."""
    yield from torch.utils.data.DataLoader(Text(torch, change, steps), batch_size=4)


def main() -> None:
    """Train the model."""
    change, steps, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    import torch
    import torch.utils.data

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if change == "slower-rank":
        torch.distributed.init_process_group("gloo")
    embedding, layer, head = torch.nn.Embedding(97, 64), torch.nn.TransformerEncoderLayer(
        64, 4, 128, batch_first=True
    ), torch.nn.Linear(64, 97)  # fmt: skip
    model: Any = torch.nn.Sequential(embedding, layer, head)
    if change == "slower-rank":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    more = changed(change, torch, folder)
    others: list[subprocess.Popen[bytes]] = []
    gc.collect()
    gc.freeze()
    for step, batch in enumerate(batches(torch, change, steps)):
        tokens = batch["input_ids"]
        if step == steps // 2:
            others = begin(change, folder)
        if step >= steps // 2:
            more(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
    for other in others:
        other.kill()


if __name__ == "__main__":
    main()
