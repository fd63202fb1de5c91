"""Zoo programs in other authors' style: maps and actors on the host, pairs, packed weights and parked activations."""

from __future__ import annotations

import contextlib
import importlib
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")
functional: Any = importlib.import_module("torch.nn.functional")
checkpoints: Any = importlib.import_module("torch.utils.checkpoint")


def _adam(model: Any) -> Any:
    return torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4, fused=True)


def _heat_of_each(centres: Sequence[Sequence[tuple[float, float, float]]], size: int) -> Any:
    place = torch.arange(size)
    heat = torch.zeros(len(centres), size, size)
    for picture, objects in enumerate(centres):
        for row, column, spread in objects:
            away = (place[:, None] - row).square() + (place - column).square()
            spot = torch.exp(-away / (2 * spread * spread))
            heat[picture] = torch.maximum(heat[picture], spot)
    return heat


def _heat_of_all(centres: Sequence[Sequence[tuple[float, float, float]]], size: int) -> Any:
    place = torch.arange(size)
    row, column, spread = torch.tensor(centres)[..., None].unbind(2)
    scale = 2 * spread.square()
    down, along = (torch.exp(-(place - centre).square() / scale) for centre in (row, column))
    return (down[..., None] * along[..., None, :]).amax(1)


def heat_by_object(*, slow: bool) -> Iterator[None]:
    """The map that a detector is to learn is drawn object by object; the cure draws all objects of a batch at once."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, padding=1),
        torch.nn.ReLU(), torch.nn.Conv2d(16, 1, 1), torch.nn.Flatten(0, 1),
    )  # fmt: skip
    optimizer = _adam(model)
    x, dice = torch.rand(16, 3, 64, 64), random.Random(0)
    while True:
        centres = [
            [(dice.uniform(0, 31), dice.uniform(0, 31), dice.uniform(1, 4)) for _ in range(12)]
            for _ in range(len(x))
        ]  # fmt: skip
        wanted = _heat_of_each(centres, 32) if slow else _heat_of_all(centres, 32)
        loss = functional.mse_loss(model(x).sigmoid(), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Pole:
    """A cart with a pole on it, pushed to one side or the other."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._put_up()

    def _put_up(self) -> None:
        self.state = [self._dice.uniform(-0.05, 0.05) for _ in range(4)]

    def push(self, side: int) -> float:
        """What it earns: 1 while the pole stands; one that has fallen is put up again."""
        place, speed, angle, turning = self.state
        sine, cosine = math.sin(angle), math.cos(angle)
        pushed = ((10.0 if side else -10.0) + 0.05 * turning * turning * sine) / 1.1
        bent = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
        moved = pushed - 0.05 * bent * cosine / 1.1
        self.state = [place + 0.02 * speed, speed + 0.02 * moved, angle + 0.02 * turning, turning + 0.02 * bent]
        if abs(self.state[0]) < 2.4 and abs(self.state[2]) < 0.2:
            return 1.0
        self._put_up()
        return 0.0


def _chosen(policy: Any, states: Sequence[Sequence[float]]) -> Any:
    return torch.multinomial(policy(torch.tensor(states)).softmax(1), 1)[:, 0]


def _played(policy: Any, poles: Sequence[Pole], moves: int, *, in_turn: bool) -> tuple[Any, Any, Any]:
    """States, actions, and what was earned from there on."""
    states, actions, earned = [], [], []
    with torch.no_grad():
        for _ in range(moves):
            seen = [pole.state for pole in poles]
            sides = torch.cat([_chosen(policy, [one]) for one in seen]) if in_turn else _chosen(policy, seen)
            states.append(torch.tensor(seen))
            actions.append(sides)
            earned.append(torch.tensor([pole.push(side) for pole, side in zip(poles, sides.tolist(), strict=True)]))
    for move in reversed(range(moves - 1)):
        earned[move] = earned[move] + 0.99 * earned[move + 1]
    return torch.cat(states), torch.cat(actions), torch.cat(earned)


def _of_actions(policy: Any, states: Any, actions: Any) -> Any:
    return policy(states).log_softmax(1).gather(1, actions[:, None])[:, 0]


def actors_in_turn(*, slow: bool) -> Iterator[None]:
    """Each of 24 actors asks the policy by itself; the cure asks it once for all. Then PPO learns of it."""
    policy = torch.nn.Sequential(
        torch.nn.Linear(4, 192), torch.nn.Tanh(), torch.nn.Linear(192, 192), torch.nn.Tanh(), torch.nn.Linear(192, 2)
    )
    optimizer = _adam(policy)
    dice = random.Random(0)
    poles = [Pole(dice) for _ in range(24)]
    while True:
        states, actions, earned = _played(policy, poles, 5, in_turn=slow)
        gain = (earned - earned.mean()) / (earned.std() + 1e-6)
        with torch.no_grad():
            before = _of_actions(policy, states, actions)
        for _ in range(4):
            ratio = (_of_actions(policy, states, actions) - before).exp()
            loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield


def _likeness(x: Any, *, spread: bool) -> Any:
    """The cosine of each row with each."""
    if spread:
        return functional.cosine_similarity(x[:, None], x[None], dim=2)
    x = functional.normalize(x)
    return x @ x.T


def pairs_of_views(*, slow: bool) -> Iterator[None]:
    """Contrastive learning compares all pairs as a tensor of pairs times features; the cure is a product of matrices.

    Two views of a picture are to be more like each other than any other two.
    """
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)
    )
    optimizer = _adam(model)
    x, count = torch.randn(56, 256), 112
    itself, other = torch.eye(count, dtype=torch.bool), (torch.arange(count) + count // 2) % count
    while True:
        views = torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])
        scores = _likeness(model(views), spread=slow) / 0.2
        loss = functional.cross_entropy(scores.masked_fill(itself, -1e9), other)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Adapted(torch.nn.Module):  # type: ignore[misc]
    """A frozen layer of bytes and their scales, and a narrow one beside it that learns."""

    def __init__(self, width: int, rank: int, *, ready: bool) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-127, 128, (width, width), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(width) / 127 / width**0.5)
        self.down = torch.nn.Parameter(torch.randn(rank, width) / width**0.5)
        self.up = torch.nn.Parameter(torch.zeros(width, rank))
        self.frozen = self._unpacked() if ready else None

    def _unpacked(self) -> Any:
        return self.codes.float() * self.scales[:, None]

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        weight = self._unpacked() if self.frozen is None else self.frozen
        learnt = functional.linear(functional.linear(x, self.down), self.up)
        return x + functional.relu(functional.linear(x, weight) + learnt)


def weights_unpacked(*, slow: bool) -> Iterator[None]:
    """Frozen weights are made of bytes again in each forward pass, though memory is free; the cure makes them once.

    Only a low-rank addition to each layer learns.
    """
    model = torch.nn.Sequential(*(Adapted(768, 8, ready=not slow) for _ in range(4)), torch.nn.Linear(768, 10))
    optimizer = _adam(model)
    x, y = torch.randn(32, 768), torch.arange(32) % 10
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


class Parked:
    """A tensor in a file, which goes when nobody needs it."""

    def __init__(self, tensor: Any) -> None:
        self._path = Path(f"parked-{id(self)}.pt")
        torch.save(tensor, self._path)

    def __del__(self) -> None:
        self._path.unlink(missing_ok=True)

    def back(self) -> Any:
        """The tensor."""
        return torch.load(self._path)


def _park(tensor: Any) -> Any:
    # Small ones are weights.
    return Parked(tensor.detach()) if tensor.numel() > 20_000 else tensor


def _fetch(kept: Any) -> Any:
    return kept.back() if isinstance(kept, Parked) else kept


def activations_parked(*, slow: bool) -> Iterator[None]:
    """What backward needs is written to files and read again, though memory is free; the cure keeps it."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 12, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(12, 12, 3, padding=1), torch.nn.Tanh(),
        torch.nn.Conv2d(12, 12, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(12, 3, 3, padding=1),
    )  # fmt: skip
    optimizer = _adam(model)
    x = torch.rand(12, 3, 32, 32)
    while True:
        noisy = x + 0.1 * torch.randn_like(x)
        with torch.autograd.graph.saved_tensors_hooks(_park, _fetch) if slow else contextlib.nullcontext():
            loss = functional.mse_loss(model(noisy), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Outlines(torch.nn.Module):  # type: ignore[misc]
    """A network that goes down to half the size, and up again beside what it came from."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = torch.nn.Conv2d(3, width, 3, padding=1)
        self.deep = torch.nn.Sequential(
            torch.nn.MaxPool2d(2), torch.nn.Conv2d(width, 2 * width, 3, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(2 * width, 2 * width, 3, padding=1), torch.nn.ReLU(),
            torch.nn.ConvTranspose2d(2 * width, width, 2, stride=2),
        )  # fmt: skip
        self.last = torch.nn.Sequential(
            torch.nn.Conv2d(2 * width, width, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(width, 1, 1)
        )

    def forward(self, x: Any) -> Any:
        """A score for each pixel."""
        x = functional.relu(self.wide(x))
        return self.last(torch.cat([x, self.deep(x)], 1))[:, 0]


def pixels_by_class(*, slow: bool) -> Iterator[None]:
    """A control: a small U-Net, its batches from a worker that keeps up."""
    model = Outlines(16)
    optimizer = _adam(model)
    pictures = torch.rand(512, 3, 48, 48)
    samples = data.TensorDataset(pictures, (pictures.mean(1) > 0.5).float())
    loader = data.DataLoader(samples, batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)
    while True:
        for x, y in loader:
            loss = functional.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield


def _gated(x: Any) -> Any:
    value, gate = x.chunk(2, 1)
    return value * functional.silu(gate)


class Gated(torch.nn.Module):  # type: ignore[misc]
    """Two layers with a gate between, of which only the gate is computed again in the backward pass."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 2 * inner), torch.nn.Linear(inner, width)

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return x + self.second(checkpoints.checkpoint(_gated, self.first(x), use_reentrant=False))


def cheap_gates(*, slow: bool) -> Iterator[None]:
    """A decoy: what is computed again is a gate, which is large in memory and next to nothing in time."""
    model = torch.nn.Sequential(*(Gated(384, 512) for _ in range(2)), torch.nn.Linear(384, 10))
    optimizer = _adam(model)
    x, y = torch.randn(256, 384), torch.arange(256) % 10
    while True:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield
