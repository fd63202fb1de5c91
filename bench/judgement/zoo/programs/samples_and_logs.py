"""Zoo programs in other authors' style: samples cut and unpacked before the step, and logs written after it."""

from __future__ import annotations

import gzip
import importlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")
functional: Any = importlib.import_module("torch.nn.functional")

FOREVER = 1_000_000


def _as_it_is(batch: Any) -> Any:
    return batch


def _classify(model: Any, loader: Any) -> Iterator[None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


class Crops:
    """Pictures of 40 pixels a side, cut to 32 and changed by chance: one by one, or a batch at once."""

    def __init__(self, *, apart: bool) -> None:
        self._pictures = torch.randint(0, 256, (512, 3, 40, 40), dtype=torch.uint8)
        self._windows = self._pictures.unfold(2, 32, 1).unfold(3, 32, 1)
        self._dice = random.Random(0)
        self._apart = apart

    def __len__(self) -> int:
        return FOREVER

    def __getitems__(self, numbers: Sequence[int]) -> tuple[Any, Any]:
        """Pictures and classes of a batch."""
        labels = torch.tensor([number % 10 for number in numbers])
        if self._apart:
            return torch.stack([self._changed(number % 512) for number in numbers]), labels
        count, dice = len(numbers), self._dice
        places = torch.tensor([(number % 512, dice.randrange(9), dice.randrange(9)) for number in numbers])
        x = self._windows[places[:, 0], :, places[:, 1], places[:, 2]].float() / 255
        shape = (count, 1, 1, 1)
        x = torch.where(torch.rand(shape) < 0.5, x.flip(3), x)
        x = x * (0.8 + 0.4 * torch.rand(shape)) + 0.2 * torch.rand(shape) - 0.1
        mean = x.mean((1, 2, 3), keepdim=True)
        x = ((x - mean) * (0.8 + 0.4 * torch.rand(shape)) + mean).clamp(0, 1)
        return (x - 0.5) / 0.25, labels

    def _changed(self, number: int) -> Any:
        """Cut, turned round, brightened, and with another contrast."""
        dice = self._dice
        top, left = dice.randrange(9), dice.randrange(9)
        x = self._pictures[number, :, top : top + 32, left : left + 32].float() / 255
        if dice.random() < 0.5:
            x = x.flip(2)
        x = x * dice.uniform(0.8, 1.2) + dice.uniform(-0.1, 0.1)
        mean = x.mean()
        x = ((x - mean) * dice.uniform(0.8, 1.2) + mean).clamp(0, 1)
        return (x - 0.5) / 0.25


def crops_by_sample(*, slow: bool) -> Iterator[None]:
    """The training process cuts and brightens pictures one by one; the cure does so with a batch at once."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10),
    )  # fmt: skip
    yield from _classify(model, data.DataLoader(Crops(apart=slow), batch_size=64, collate_fn=_as_it_is))


class Signals:
    """Records of 2048 numbers in one file, which is read at any place: compressed as a whole, or as it is."""

    def __init__(self, *, packed: bool) -> None:
        dice = random.Random(0)
        raw = bytes(dice.choices(range(24), k=2 * 2048 * 64))
        path = Path("signals.gz" if packed else "signals.bin")
        path.write_bytes(gzip.compress(raw, 6) if packed else raw)
        self._file: Any = gzip.GzipFile(path) if packed else path.open("rb")

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> tuple[Any, int]:
        # As if shuffled, and no costlier in one batch than in another.
        self._file.seek(number * 37 % 64 * 4096)
        record = torch.frombuffer(bytearray(self._file.read(4096)), dtype=torch.int16)
        return record.float() / 6144, number % 10


def signals_in_gzip(*, slow: bool) -> Iterator[None]:
    """Records are sought in a compressed file, which is unpacked from its beginning; the cure is to store it as it is.

    The network is one of convolutions along time.
    """
    model = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 2048)), torch.nn.Conv1d(1, 32, 16, stride=8), torch.nn.ReLU(),
        torch.nn.Conv1d(32, 64, 8, stride=4), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10),
    )  # fmt: skip
    yield from _classify(model, data.DataLoader(Signals(packed=slow), batch_size=16))


def _bars(values: Any, count: int = 48) -> dict[str, Any]:
    """How many of the values lie in each part of their range."""
    flat = values.detach().flatten()
    least, most = float(flat.min()), float(flat.max())
    heights = torch.histc(flat, count, least, most + 1e-12).tolist()
    return {"least": least, "most": most, "mean": float(flat.mean()), "spread": float(flat.std()), "bars": heights}


def bars_of_weights(*, slow: bool) -> Iterator[None]:
    """Histograms of all weights and gradients go to a file of metrics in each step; the cure is each fiftieth step."""
    model = torch.nn.Sequential(
        torch.nn.Linear(96, 256), torch.nn.GELU(), torch.nn.LayerNorm(256),
        *(part for _ in range(3) for part in (torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256))),
        torch.nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x, y = torch.randn(128, 96), torch.arange(128) % 10
    with Path("metrics.jsonl").open("w", encoding="utf-8") as metrics:
        for step in range(1 << 62):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if slow or step % 50 == 49:
                row = {name: [_bars(one), _bars(one.grad)] for name, one in model.named_parameters()}
                metrics.write(json.dumps({"step": step, "loss": float(loss), "histograms": row}) + "\n")
                metrics.flush()
            yield


class Rows:
    """Batches that lie ready, one after another, in a table."""

    def __init__(self, rows: int, width: int) -> None:
        self._x, self._y = torch.randn(rows, width), torch.arange(rows) % 10

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        start = number * 256 % len(self._x)
        return self._x[start : start + 256], self._y[start : start + 256]


def plain_loader(*, slow: bool) -> Iterator[None]:
    """A decoy: a loader without workers, which has no more to do than to cut batches out of a table."""
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 768), torch.nn.ReLU(), torch.nn.Linear(768, 768), torch.nn.ReLU(), torch.nn.Linear(768, 10)
    )
    yield from _classify(model, data.DataLoader(Rows(4096, 512), batch_size=None))
