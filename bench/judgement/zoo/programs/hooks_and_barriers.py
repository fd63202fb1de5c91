"""Zoo programs of two ranks over gloo with hooks and barriers in other authors' style, and a healthy one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")
distributed: Any = importlib.import_module("torch.distributed")
functional: Any = importlib.import_module("torch.nn.functional")
parallel: Any = importlib.import_module("torch.nn.parallel")


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


class Scores(torch.nn.Module):  # type: ignore[misc]
    """Convolutions along time whose channels are normed, one block after another."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Conv1d(width, width, 3, padding=1) for _ in range(depth)])
        self.norms = torch.nn.ModuleList([torch.nn.GroupNorm(4, width) for _ in range(depth)])

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`: batch, channels, places."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + functional.relu(norm(layer(x)))
        return x


def _mean_of_ranks(parameter: Any) -> None:
    distributed.all_reduce(parameter.grad)
    parameter.grad.div_(distributed.get_world_size())


def hooks_reduce(*, slow: bool) -> Iterator[None]:
    """A hook of each parameter reduces its gradient and waits for it; the cure is DDP with its buckets."""
    model, x = Scores(16, 12), torch.randn(16, 16, 64)
    optimizer = _adam(model)
    if slow:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(_mean_of_ranks)
    trained = model if slow else parallel.DistributedDataParallel(model)
    while True:
        optimizer.zero_grad()
        trained(x).square().mean().backward()
        optimizer.step()
        yield


class Spoken(torch.nn.Module):  # type: ignore[misc]
    """A recurrent layer, and a class for what it has heard."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.layer = torch.nn.GRU(features, hidden, batch_first=True)
        self.head = torch.nn.Linear(hidden, 10)

    def forward(self, x: Any) -> Any:
        """Ten scores for each recording."""
        return self.head(self.layer(x)[0].mean(1))


def sorted_shards(*, slow: bool) -> Iterator[None]:
    """Recordings lie sorted by length, and each rank has one half of them; the cure deals them out in turn."""
    model = parallel.DistributedDataParallel(Spoken(40, 96))
    optimizer = _adam(model)
    # Commands of a few words, and what was said at length.
    lengths = (*range(4, 12), *range(72, 104, 4))
    recordings = [torch.randn(16, length, 40) for length in lengths]
    rank, half = distributed.get_rank(), len(recordings) // 2
    own = recordings[rank * half : (rank + 1) * half] if slow else recordings[rank::2]
    for step in range(1 << 62):
        x = own[step % half]
        optimizer.zero_grad()
        functional.cross_entropy(model(x), torch.arange(16) % 10).backward()
        optimizer.step()
        yield


def barrier_each_step(*, slow: bool) -> Iterator[None]:
    """A decoy: a barrier at the end of each step, to which two ranks with equal work come together."""
    model = torch.nn.Sequential(
        torch.nn.Linear(384, 768), torch.nn.ReLU(), torch.nn.Linear(768, 768), torch.nn.ReLU(), torch.nn.Linear(768, 64)
    )
    trained = parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = _adam(model)
    x = torch.randn(384, 384)
    while True:
        optimizer.zero_grad()
        trained(x).square().mean().backward()
        optimizer.step()
        distributed.barrier()
        yield
