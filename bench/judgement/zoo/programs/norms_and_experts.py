"""Zoo programs of two ranks over gloo in other authors' style: norms synchronised in each layer, distant experts."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
distributed: Any = importlib.import_module("torch.distributed")
functional: Any = importlib.import_module("torch.nn.functional")
parallel: Any = importlib.import_module("torch.nn.parallel")


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _summed(x: Any) -> Any:
    total = x.clone()
    distributed.all_reduce(total)
    return total


class OfRanks(torch.autograd.Function):  # type: ignore[misc]
    """The sum over ranks, through which gradients pass."""

    @staticmethod
    def forward(_context: Any, x: Any) -> Any:
        """Of the shape of `x`."""
        return _summed(x)

    @staticmethod
    def backward(_context: Any, grad: Any) -> Any:
        """Of the shape of `grad`."""
        return _summed(grad)


class BatchNorm(torch.nn.Module):  # type: ignore[misc]
    """Batch norm, with the mean and variance of all ranks, or of this one."""

    def __init__(self, width: int, *, of_all: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.of_all = of_all

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        moments = torch.stack([x.mean(0), x.square().mean(0)])
        if self.of_all:
            moments = OfRanks.apply(moments) / distributed.get_world_size()
        mean, square = moments
        scale = (square - mean.square() + 1e-5).rsqrt() * self.weight
        return (x - mean) * scale + self.bias


def shared_norms(*, slow: bool) -> Iterator[None]:
    """The norm of each layer waits for the mean and variance of all ranks; the cure takes those of its own batch."""
    blocks = [
        part
        for _ in range(10)
        for part in (torch.nn.Linear(64, 64), BatchNorm(64, of_all=slow), torch.nn.ReLU())
    ]  # fmt: skip
    model = parallel.DistributedDataParallel(torch.nn.Sequential(*blocks, torch.nn.Linear(64, 10)))
    optimizer = _adam(model)
    x, y = torch.randn(128, 64), torch.arange(128) % 10
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


class Exchanged(torch.autograd.Function):  # type: ignore[misc]
    """Rows for other ranks go there, as many as `given` says, and as many as `taken` says come from them."""

    @staticmethod
    def forward(context: Any, x: Any, given: Sequence[int], taken: Sequence[int]) -> Any:
        """Rows that are for this rank."""
        context.back = taken, given
        return _exchanged(x, given, taken)

    @staticmethod
    def backward(context: Any, grad: Any) -> Any:
        """Gradients go back to where rows came from."""
        return _exchanged(grad, *context.back), None, None


def _exchanged(x: Any, given: Sequence[int], taken: Sequence[int]) -> Any:
    out = x.new_empty(sum(taken), x.shape[1])
    distributed.all_to_all_single(out, x.contiguous(), list(taken), list(given))
    return out


class Experts(torch.nn.Module):  # type: ignore[misc]
    """An expert on each rank, and a router that says whose a token is."""

    def __init__(self, width: int, world: int, first: float) -> None:
        super().__init__()
        self.router = torch.nn.Linear(width, world, bias=False)
        self.expert = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.ReLU(), torch.nn.Linear(4 * width, width)
        )
        self.lead = torch.tensor([first] + [0.0] * (world - 1))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Of the shape of `x`, and how many tokens of this rank went to each."""
        scores = (self.router(x) + self.lead).softmax(1)
        share, chosen = scores.max(1)
        order = chosen.argsort(stable=True)
        counts = chosen.bincount(minlength=scores.shape[1])
        come = torch.empty_like(counts)
        distributed.all_to_all_single(come, counts)
        given, taken = counts.tolist(), come.tolist()
        found = Exchanged.apply(self.expert(Exchanged.apply(x[order], given, taken)), taken, given)
        return x.index_add(0, order, found * share[order, None]), counts


def expert_of_all(*, slow: bool) -> Iterator[None]:
    """The router sends nearly all tokens to the expert of rank 0; the cure moves its bias until all get as many."""
    world = distributed.get_world_size()
    model = Experts(256, world, first=2.0 if slow else 0.0)
    for one in model.router.parameters():
        distributed.broadcast(one.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    # Each rank has tokens of its own.
    x = torch.randn(world, 384, 256)[distributed.get_rank()]
    while True:
        out, counts = model(x)
        optimizer.zero_grad()
        out.square().mean().backward()
        for one in model.router.parameters():
            distributed.all_reduce(one.grad)
        optimizer.step()
        if not slow:
            distributed.all_reduce(counts)
            model.lead += 0.01 * (counts.float().mean() - counts).sign()
        yield
