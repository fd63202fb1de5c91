"""Zoo programs that keep memory, or request it anew from the system in every step."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")


def leak(*, slow: bool) -> Iterator[None]:
    """Losses are kept with their graphs, and with all that these hold."""
    model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history: list[Any] = []
    while True:
        loss = model(torch.randn(256, 256)).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=slow)
        optimizer.step()
        history.append(loss if slow else loss.detach())
        # Some 1.3 MB a step: beyond a gigabyte the machine would be the cause. A capture must not see it fall.
        if len(history) > 750:
            history.clear()
        yield


def fresh_memory(*, slow: bool) -> Iterator[None]:
    """Results of 48 MB are written to memory that comes anew from the system each time."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    a, b = torch.randn(12_000_000), torch.randn(12_000_000)
    kept = torch.empty_like(a)
    while True:
        for _ in range(3):
            out = torch.add(a, b) if slow else torch.add(a, b, out=kept)
        optimizer.zero_grad()
        (weight * float(out[0])).sum().backward()
        optimizer.step()
        yield
