"""Zoo programs of two ranks over gloo that wait for each other, or send more or smaller messages than needed."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")
distributed: Any = importlib.import_module("torch.distributed")
parallel: Any = importlib.import_module("torch.nn.parallel")


def _network(width: int, depth: int) -> Any:
    layers = [part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


def _averaged(model: Any) -> None:
    """One reduction of all gradients."""
    flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    distributed.all_reduce(flat)
    place = 0
    for parameter in model.parameters():
        count = parameter.grad.numel()
        parameter.grad.copy_(flat[place : place + count].view_as(parameter.grad) / distributed.get_world_size())
        place += count


def _steps(model: Any, optimizer: Any, x: Any) -> Iterator[None]:
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        _averaged(model)
        optimizer.step()
        yield


def straggler(*, slow: bool) -> Iterator[None]:
    """Rank 1 computes eight products more in each step."""
    model, x = _network(256, 3), torch.randn(64, 256)
    extra = torch.randn(384, 384)
    steps = _steps(model, torch.optim.SGD(model.parameters(), lr=0.01), x)
    while True:
        if slow and distributed.get_rank() == 1:
            for _ in range(8):
                extra = (extra @ extra).tanh()
        next(steps)
        yield


def late_host(*, slow: bool) -> Iterator[None]:
    """Rank 1 waits 15 ms for its batch in each step, which comes from a far disk."""
    model, x = _network(256, 3), torch.randn(64, 256)
    steps = _steps(model, torch.optim.SGD(model.parameters(), lr=0.01), x)
    batches: Any = importlib.import_module("torch.utils.data").DataLoader(
        Far(x, late=slow and distributed.get_rank() == 1), batch_size=None
    )
    for _ in batches:
        next(steps)
        yield


class Far:
    """The same batch again and again, after a while."""

    def __init__(self, batch: Any, *, late: bool) -> None:
        self._batch = batch
        self._late = late

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Any:
        if self._late:
            time.sleep(0.015)
        return self._batch


def uneven_batches(*, slow: bool) -> Iterator[None]:
    """One rank's sequences are long in turn, and the other's short; sorted, both are alike."""
    model = _network(256, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    long, short, even = torch.randn(768, 256), torch.randn(32, 256), torch.randn(400, 256)
    for step in range(1 << 62):
        x = (long if (step // 3 + distributed.get_rank()) % 2 else short) if slow else even
        optimizer.zero_grad()
        model(x).square().mean().backward()
        _averaged(model)
        optimizer.step()
        yield


def small_reductions(*, slow: bool) -> Iterator[None]:
    """Two hundred reductions of 4 KB after the backward pass, in place of one."""
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32, bias=False) for _ in range(200)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(16, 32)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if slow:
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
        else:
            _averaged(model)
        optimizer.step()
        yield


def each_micro_batch(*, slow: bool) -> Iterator[None]:
    """Six micro-batches, and 16 MB of gradients reduced after each of them."""
    model = parallel.DistributedDataParallel(_network(1024, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 1024)
    while True:
        optimizer.zero_grad()
        for micro in range(6):
            with contextlib.nullcontext() if slow or micro == 5 else model.no_sync():
                model(x).square().mean().backward()
        optimizer.step()
        yield


def scalars_apart(*, slow: bool) -> Iterator[None]:
    """Twenty-four counters are reduced one by one and read at once, in place of together."""
    model, x = _network(256, 3), torch.randn(64, 256)
    steps = _steps(model, torch.optim.SGD(model.parameters(), lr=0.01), x)
    counters = [torch.rand(1) for _ in range(24)]
    while True:
        next(steps)
        if slow:
            total = 0.0
            for counter in counters:
                shared = counter.clone()
                distributed.all_reduce(shared)
                total += shared.item()
        else:
            together = torch.cat(counters)
            distributed.all_reduce(together)
            total = sum(together.tolist())
        yield


def balanced(*, slow: bool) -> Iterator[None]:
    """A control: two ranks with as much work each, and DDP as it comes."""
    model = parallel.DistributedDataParallel(_network(256, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(512, 256)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield
