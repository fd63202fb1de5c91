"""Programs of two ranks over gloo as others write them: a pipeline that is not filled, and shards that none needs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")
distributed: Any = importlib.import_module("torch.distributed")
fsdp: Any = importlib.import_module("torch.distributed.fsdp")
functional: Any = importlib.import_module("torch.nn.functional")
parallel: Any = importlib.import_module("torch.nn.parallel")

WIDTH = 96


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


def _first_half(model: Any, x: Any, count: int) -> None:
    """Forward of all micro-batches, and then backward of each as its gradient comes."""
    given, sent = [], []
    for part in x.chunk(count):
        given.append(model(part))
        sent.append(distributed.isend(given[-1].detach(), 1))
    for out in given:
        grad = torch.empty_like(out)
        distributed.recv(grad, 1)
        out.backward(grad)
    for one in sent:
        one.wait()


def _second_half(model: Any, y: Any, count: int) -> None:
    """Forward and backward of each micro-batch as it comes."""
    sent = []
    for wanted in y.chunk(count):
        x = torch.empty(len(wanted), WIDTH)
        distributed.recv(x, 0)
        x.requires_grad_()
        (functional.cross_entropy(model(x), wanted) / count).backward()
        sent.append(distributed.isend(x.grad, 0))
    for one in sent:
        one.wait()


def one_micro_batch(*, slow: bool) -> Iterator[None]:
    """Half of the layers is on each rank, and one waits while the other computes; the cure is four micro-batches."""
    rank, count = distributed.get_rank(), 1 if slow else 4
    model = torch.nn.Sequential(*(Residual(WIDTH, 4 * WIDTH) for _ in range(4)))
    if rank:
        model.append(torch.nn.Linear(WIDTH, 10))
    optimizer = _adam(model)
    x, y = torch.randn(1024, WIDTH), torch.arange(1024) % 10
    while True:
        optimizer.zero_grad()
        if rank:
            _second_half(model, y, count)
        else:
            _first_half(model, x, count)
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
