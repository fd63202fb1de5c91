"""Zoo programs of two ranks over gloo with buckets and gathers as people write them, and a healthy one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")
distributed: Any = importlib.import_module("torch.distributed")
parallel: Any = importlib.import_module("torch.nn.parallel")


def _train(model: Any, *given: Any) -> Iterator[None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    while True:
        optimizer.zero_grad()
        model(*given).square().mean().backward()
        optimizer.step()
        yield


class Residual(torch.nn.Module):  # type: ignore[misc]
    """A layer whose input is added to what it gives."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, width), torch.nn.ReLU())

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return x + self.layer(x)


def tiny_buckets(*, slow: bool) -> Iterator[None]:
    """Gradients are reduced in buckets of a kilobyte."""
    model = torch.nn.Sequential(*(Residual(32) for _ in range(24)))
    yield from _train(parallel.DistributedDataParallel(model, bucket_cap_mb=0.001 if slow else 25), torch.randn(32, 32))


class Tower(torch.nn.Module):  # type: ignore[misc]
    """Transformer blocks, one after another."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(
            *(
                torch.nn.TransformerEncoderLayer(width, 2, width, dropout=0.0, batch_first=True)
                for _ in range(depth)
            )
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`: batch, places, channels."""
        return self.blocks(x)


def _edits(said: str, meant: str) -> int:
    """How many letters must change to make one of the other."""
    row = list(range(len(meant) + 1))
    for letter in said:
        corner, row[0] = row[0], row[0] + 1
        for place, wanted in enumerate(meant):
            change = corner + (letter != wanted)
            corner = row[place + 1]
            less = row[place] if row[place] < corner else corner
            row[place + 1] = change if change <= less else less + 1
    return row[-1]


def rank_that_scores(*, slow: bool) -> Iterator[None]:
    """Rank 0 compares texts letter by letter in each step, in place of each fiftieth, and the other waits for it."""
    model = parallel.DistributedDataParallel(Tower(32, 2))
    steps = _train(model, torch.randn(16, 16, 32))
    said, meant = "abcde" * 20, "badce" * 20
    for step in range(1 << 62):
        if distributed.get_rank() == 0 and (slow or step % 50 == 49):
            for _ in range(14):
                _edits(said, meant)
        next(steps)
        yield


def objects_gathered(*, slow: bool) -> Iterator[None]:
    """Loss, scores and rates are gathered as Python objects, one by one, in place of one tensor."""
    model, x = Tower(32, 2), torch.randn(16, 16, 32)
    wrapped = parallel.DistributedDataParallel(model)
    steps = _train(wrapped, x)
    world = distributed.get_world_size()
    while True:
        next(steps)
        numbers = {f"metric {number}": float(number) for number in range(12)}
        if slow:
            for name, value in numbers.items():
                gathered: list[Any] = [None] * world
                distributed.all_gather_object(gathered, {name: value})
        else:
            mine = torch.tensor(list(numbers.values()))
            distributed.all_gather([torch.empty_like(mine) for _ in range(world)], mine)
        yield


def pair_of_painters(*, slow: bool) -> Iterator[None]:
    """A control: two ranks train an autoencoder of pictures with DDP."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 24, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(24, 48, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.ConvTranspose2d(48, 24, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.ConvTranspose2d(24, 3, 4, stride=2, padding=1),
    )  # fmt: skip
    yield from _train(parallel.DistributedDataParallel(model), torch.randn(32, 3, 32, 32))
