"""Zoo programs of two ranks over gloo in other authors' style: layers cut in two, and shards that no layer needs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")
distributed: Any = importlib.import_module("torch.distributed")
fsdp: Any = importlib.import_module("torch.distributed.fsdp")
functional: Any = importlib.import_module("torch.nn.functional")
parallel: Any = importlib.import_module("torch.nn.parallel")


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


class Residual(torch.nn.Module):  # type: ignore[misc]
    """Two layers, added to what comes in."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.first, self.second = torch.nn.Linear(width, inner), torch.nn.Linear(inner, width)

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return x + self.second(functional.gelu(self.first(self.norm(x))))


class Summed(torch.autograd.Function):  # type: ignore[misc]
    """The sum over ranks; the gradient is the same on all of them."""

    @staticmethod
    def forward(_context: Any, x: Any) -> Any:
        """Of the shape of `x`."""
        total = x.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(_context: Any, grad: Any) -> Any:
        """As it is."""
        return grad


class Spread(torch.autograd.Function):  # type: ignore[misc]
    """What all ranks have, of whose gradient each has a part."""

    @staticmethod
    def forward(_context: Any, x: Any) -> Any:
        """As it is."""
        return x.view_as(x)

    @staticmethod
    def backward(_context: Any, grad: Any) -> Any:
        """The sum of all parts."""
        total = grad.clone()
        distributed.all_reduce(total)
        return total


class Cut(torch.nn.Module):  # type: ignore[misc]
    """A block whose inner channels are dealt out to all ranks."""

    def __init__(self, whole: Residual) -> None:
        super().__init__()
        world, rank = distributed.get_world_size(), distributed.get_rank()
        self.norm, self.bias = whole.norm, whole.second.bias
        first, second = whole.first, whole.second.weight.detach().chunk(world, 1)[rank]
        self.inner = torch.nn.Parameter(first.weight.detach().chunk(world)[rank].clone())
        self.inner_bias = torch.nn.Parameter(first.bias.detach().chunk(world)[rank].clone())
        self.outer = torch.nn.Parameter(second.clone())

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        inner = functional.linear(Spread.apply(self.norm(x)), self.inner, self.inner_bias)
        return x + Summed.apply(functional.linear(functional.gelu(inner), self.outer)) + self.bias


def layers_in_halves(*, slow: bool) -> Iterator[None]:
    """Each layer of a small model is cut in two, one half on each rank; the cure cuts the batch instead, with DDP."""
    blocks = [Residual(96, 192) for _ in range(8)]
    x, y = torch.randn(256, 96), torch.arange(256) % 10
    if slow:
        model: Any = torch.nn.Sequential(*(Cut(block) for block in blocks), torch.nn.Linear(96, 10))
    else:
        model = parallel.DistributedDataParallel(torch.nn.Sequential(*blocks, torch.nn.Linear(96, 10)))
        x, y = (part.chunk(distributed.get_world_size())[distributed.get_rank()] for part in (x, y))
    optimizer = _adam(model)
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


def needless_shards(*, slow: bool) -> Iterator[None]:
    """Each layer of a small model is sharded by FSDP and gathered twice a step; the cure keeps it whole, with DDP."""
    model: Any = torch.nn.Sequential(*(Residual(128, 256) for _ in range(6)), torch.nn.Linear(128, 10))
    if slow:
        mesh = distributed.device_mesh.init_device_mesh("cpu", (distributed.get_world_size(),))
        for block in model:
            fsdp.fully_shard(block, mesh=mesh)
        fsdp.fully_shard(model, mesh=mesh)
    else:
        model = parallel.DistributedDataParallel(model)
    optimizer = _adam(model)
    x, y = torch.randn(192, 128), torch.arange(192) % 10
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield
