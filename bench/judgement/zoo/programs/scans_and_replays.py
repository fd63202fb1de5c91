"""Zoo programs in other authors' style: scans, pictures and replays loaded before the step, and a file of tokens."""

from __future__ import annotations

import importlib
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")
functional: Any = importlib.import_module("torch.nn.functional")

FOREVER = 1_000_000
MEAN, SPREAD = (torch.tensor(three).view(3, 1, 1) for three in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _seen(scan: Any, contrast: float) -> Any:
    """What a doctor looks at: soft tissue, from black to white."""
    return ((scan.float().clamp(-160, 240) + 160) / 400).pow(contrast)


class Scans:
    """Scans of 72 voxels a side, of which a sample is a cube of 24 at a place that chance gives."""

    def __init__(self, *, whole: bool) -> None:
        self._scans = torch.randint(-1000, 1500, (6, 72, 72, 72), dtype=torch.int16)
        self._dice = random.Random(0)
        self._whole = whole

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> Any:
        scan, contrast = self._scans[number % 6], self._dice.uniform(0.8, 1.2)
        cube = tuple(slice(first, first + 24) for first in (self._dice.randrange(48) for _ in range(3)))
        found = _seen(scan, contrast)[cube] if self._whole else _seen(scan[cube], contrast)
        return found[None]


def scans_then_cubes(*, slow: bool) -> Iterator[None]:
    """A whole scan is windowed, scaled and given its contrast, and then cut; the cure cuts first."""
    model = torch.nn.Sequential(
        torch.nn.Conv3d(1, 8, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv3d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.ConvTranspose3d(16, 8, 2, stride=2), torch.nn.ReLU(), torch.nn.ConvTranspose3d(8, 1, 2, stride=2),
    )  # fmt: skip
    optimizer = _adam(model)
    for x in data.DataLoader(Scans(whole=slow), batch_size=4):
        loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Photos:
    """Pictures of 224 pixels a side, as bytes, or as the doubles that a division by 255.0 makes of them."""

    def __init__(self, *, doubles: bool) -> None:
        self._photos = torch.randint(0, 256, (64, 3, 224, 224), dtype=torch.uint8)
        self._doubles = doubles

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> tuple[Any, int]:
        photo = self._photos[number % 64]
        return ((photo.double() / 255.0 - MEAN) / SPREAD if self._doubles else photo), number % 10


def doubles_from_worker(*, slow: bool) -> Iterator[None]:
    """A worker makes doubles of bytes, and the loop floats of doubles; the cure sends bytes, and makes floats once."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 24, 16, stride=16), torch.nn.ReLU(), torch.nn.Conv2d(24, 48, 3, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(48, 10),
    )  # fmt: skip
    optimizer = _adam(model)
    for sent, y in data.DataLoader(Photos(doubles=slow), batch_size=16, num_workers=1):
        x = sent.float() if slow else (sent.float() / 255.0 - MEAN) / SPREAD
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Move(NamedTuple):
    """What was seen, what was done, what it earned, and what was seen then."""

    state: Sequence[float]
    action: int
    earned: float
    after: Sequence[float]


class Crane:
    """Something with 32 joints, each of which follows what is asked of one of them."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.state = [dice.uniform(-1, 1) for _ in range(32)]

    def turn(self, action: int) -> Move:
        """One joint is driven, and all tremble."""
        before = self.state
        pull, place = (0.1 if action % 2 else -0.1), action // 2
        self.state = [0.99 * angle + self._dice.uniform(-0.01, 0.01) for angle in before]
        self.state[place] += pull
        return Move(before, action, -abs(self.state[place]), self.state)


class Kept:
    """The last moves, as the tuples that they were or as a table of each of their parts."""

    def __init__(self, count: int, *, tuples: bool) -> None:
        self._moves: deque[Move] | None = deque(maxlen=count) if tuples else None
        self._tables = torch.empty(count, 32), torch.empty(count, dtype=torch.long), torch.empty(count)
        self._after = torch.empty(count, 32)
        self._put = 0

    def put(self, move: Move) -> None:
        """One more, in place of the oldest."""
        if self._moves is not None:
            self._moves.append(move)
            return
        place = self._put % len(self._after)
        for table, part in zip((*self._tables, self._after), move, strict=True):
            table[place] = torch.tensor(part)
        self._put += 1

    def some(self, count: int, dice: random.Random) -> tuple[Any, ...]:
        """So many of them, each part as a tensor."""
        if self._moves is not None:
            return tuple(torch.tensor(part) for part in zip(*dice.sample(self._moves, count), strict=True))
        places = torch.randint(min(self._put, len(self._after)), (count,))
        return tuple(table[places] for table in (*self._tables, self._after))


def _value() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)
    )


def replay_of_tuples(*, slow: bool) -> Iterator[None]:
    """Q learning makes its batch of a list of tuples of numbers; the cure keeps moves in tables, and takes rows."""
    model, slower = _value(), _value().requires_grad_(requires_grad=False)
    optimizer = _adam(model)
    dice, moves = random.Random(0), Kept(4096, tuples=slow)
    crane = Crane(dice)
    for _ in range(2048):
        moves.put(crane.turn(dice.randrange(64)))
    for step in range(1 << 62):
        with torch.no_grad():
            best = int(model(torch.tensor(crane.state)).argmax())
        moves.put(crane.turn(best if dice.random() < 0.9 else dice.randrange(64)))
        states, actions, earned, after = moves.some(1024, dice)
        with torch.no_grad():
            wanted = earned + 0.98 * slower(after).amax(1)
        loss = functional.smooth_l1_loss(model(states).gather(1, actions[:, None])[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            slower.load_state_dict(model.state_dict())
        yield


def mapped_tokens(*, slow: bool) -> Iterator[None]:
    """A decoy: the loop cuts its batch out of a mapped file of tokens by itself, which takes next to no time."""
    count, places = 1 << 21, 64
    tokens = torch.from_file("tokens.bin", shared=True, size=count, dtype=torch.int16)
    tokens.random_(512)
    table, head = torch.nn.Embedding(512, 128), torch.nn.Linear(192, 512)
    layer = torch.nn.LSTM(128, 192, batch_first=True)
    optimizer = _adam(torch.nn.ModuleList([table, layer, head]))
    while True:
        first = torch.randint(count - places - 1, (12,)).tolist()
        cut = torch.stack([tokens[one : one + places + 1] for one in first]).long()
        scores = head(layer(table(cut[:, :-1]))[0])
        loss = functional.cross_entropy(scores.flatten(0, 1), cut[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield
