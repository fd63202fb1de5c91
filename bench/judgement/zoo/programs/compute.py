"""Zoo programs with slow operators: by number type, memory layout, number of threads, or small pieces."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")
functional: Any = importlib.import_module("torch.nn.functional")
checkpoints: Any = importlib.import_module("torch.utils.checkpoint")


def _network(width: int, depth: int) -> Any:
    layers = [part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


def _steps(model: Any, x: Any) -> Iterator[None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield


def fp64(*, slow: bool) -> Iterator[None]:
    """A NumPy array of 64 bits makes the whole model one of 64 bits."""
    numpy: Any = importlib.import_module("numpy")
    raw = numpy.random.default_rng(0).standard_normal((256, 512))
    x = torch.from_numpy(raw if slow else raw.astype("float32"))
    yield from _steps(_network(512, 3).to(x.dtype), x)


def no_amp(*, slow: bool) -> Iterator[None]:
    """Products in float32 on a processor with instructions for bfloat16."""
    model, x = _network(1024, 3), torch.randn(256, 1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    while True:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not slow):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        yield


class Casting(torch.nn.Module):  # type: ignore[misc]
    """A layer around which numbers are converted to another type and back."""

    def __init__(self, layer: Any, *, casts: bool) -> None:
        super().__init__()
        self.layer = layer
        self.casts = casts

    def forward(self, x: Any) -> Any:
        """The layer's output."""
        if self.casts:
            x = x.to(torch.float64).to(torch.float16).to(torch.float32)
        return self.layer(x)


def casts(*, slow: bool) -> Iterator[None]:
    """Activations are converted to and fro between layers."""
    layers = [Casting(torch.nn.ReLU(), casts=slow) for _ in range(12)]
    yield from _steps(torch.nn.Sequential(torch.nn.Linear(48, 48), *layers), torch.randn(4096, 48))


def strided(*, slow: bool) -> Iterator[None]:
    """Each layer gets its input transposed, and copies it into order."""
    biases = [torch.nn.Parameter(torch.randn(32)) for _ in range(6)]
    optimizer = torch.optim.SGD(biases, lr=1e-4)
    x = torch.randn(16, 1024, 32)
    while True:
        out = x
        for bias in biases:
            if slow:
                out = out.transpose(1, 2).contiguous().transpose(1, 2).contiguous()
            out = torch.relu(out + bias)
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        yield


def few_threads(*, slow: bool) -> Iterator[None]:
    """Large products on one thread, while other cores have nothing to do."""
    torch.set_num_threads(1 if slow else 2)
    yield from _steps(_network(1024, 3), torch.randn(384, 1024))


def attention(*, slow: bool) -> Iterator[None]:
    """Attention of products and a softmax, in place of the one operator."""
    q, k, v = (torch.nn.Parameter(torch.randn(2, 4, 768, 32)) for _ in range(3))
    optimizer = torch.optim.SGD([q, k, v], lr=1e-4)
    while True:
        if slow:
            out = torch.softmax(q @ k.transpose(-2, -1) / 32**0.5, dim=-1) @ v
        else:
            out = functional.scaled_dot_product_attention(q, k, v)
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        yield


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


class Activation(torch.nn.Module):  # type: ignore[misc]
    """GELU by its formula, or by its operator."""

    def __init__(self, *, formula: bool) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, x: Any) -> Any:
        """GELU of `x`."""
        return _gelu(x) if self.formula else functional.gelu(x, approximate="tanh")


def gelu_pieces(*, slow: bool) -> Iterator[None]:
    """GELU as nine elementwise operators."""
    parts = [part for _ in range(4) for part in (torch.nn.Linear(96, 96), Activation(formula=slow))]
    yield from _steps(torch.nn.Sequential(*parts), torch.randn(2048, 96))


class Recomputed(torch.nn.Module):  # type: ignore[misc]
    """A layer whose forward pass may be done again in the backward pass."""

    def __init__(self, layer: Any, *, again: bool) -> None:
        super().__init__()
        self.layer = layer
        self.again = again

    def forward(self, x: Any) -> Any:
        """The layer's output."""
        return checkpoints.checkpoint(self.layer, x, use_reentrant=False) if self.again else self.layer(x)


def recompute(*, slow: bool) -> Iterator[None]:
    """Every layer is computed again in the backward pass, though memory is free."""
    layers = [Recomputed(_network(512, 2), again=slow) for _ in range(3)]
    yield from _steps(torch.nn.Sequential(*layers), torch.randn(256, 512, requires_grad=True))


def padding(*, slow: bool) -> Iterator[None]:
    """Sequences are padded to the longest of all, in place of the longest of those of like length."""
    table = torch.nn.Embedding(1000, 128, padding_idx=0)
    body = _network(128, 4)
    optimizer = torch.optim.SGD([*table.parameters(), *body.parameters()], lr=1e-3)
    dice = torch.Generator().manual_seed(0)
    while True:
        length = int(torch.randint(16, 128, (1,), generator=dice))
        tokens = torch.randint(1, 1000, (16, length), generator=dice)
        if slow:
            tokens = functional.pad(tokens, (0, 512 - length))
        optimizer.zero_grad()
        body(table(tokens)).square().mean().backward()
        optimizer.step()
        yield
