"""Zoo programs as people write them: text, archives and storage before the step, metrics and states after it."""

from __future__ import annotations

import bz2
import importlib
import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")
functional: Any = importlib.import_module("torch.nn.functional")

FOREVER = 1_000_000


class Images(torch.nn.Module):  # type: ignore[misc]
    """A small convolution network for pictures of 3 channels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, width, 3, stride=2, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), torch.nn.ReLU(),
        )  # fmt: skip
        self.head = torch.nn.Linear(2 * width, 10)

    def forward(self, x: Any) -> Any:
        """Ten scores for each picture."""
        return self.head(self.body(x).mean((2, 3)))


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    """A recurrent layer whose last state is classified."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.layer = torch.nn.GRU(features, hidden, batch_first=True)
        self.head = torch.nn.Linear(hidden, 10)

    def forward(self, x: Any) -> Any:
        """Ten scores for each sequence."""
        return self.head(self.layer(x)[0][:, -1])


class Reader(torch.nn.Module):  # type: ignore[misc]
    """An embedding and a transformer block, for classes of texts."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(words, width, padding_idx=0)
        self.block = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(width, 10)

    def forward(self, tokens: Any) -> Any:
        """Ten scores for each text."""
        return self.head(self.block(self.table(tokens)).mean(1))


def _learn(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    loss = functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def _adam(model: Any) -> Any:
    return torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)


def _spelled(dice: random.Random, words: int) -> str:
    return " ".join("".join(dice.choices("aeinorst", k=dice.randint(2, 12))) for _ in range(words))


_WORD = re.compile(r"\w+|[^\w\s]")
_PIECES = {piece: number + 1 for number, piece in enumerate("aeinorst")}
_PIECES |= {a + b: 9 + 8 * i + k for i, a in enumerate("aeinorst") for k, b in enumerate("aeinorst")}


def _tokens(text: str, most: int) -> list[int]:
    """Each word in its longest known pieces, filled up with zeros."""
    found: list[int] = []
    for word in _WORD.findall(text.lower()):
        while word:
            size = next(size for size in (6, 5, 4, 3, 2, 1) if word[:size] in _PIECES)
            found.append(_PIECES[word[:size]])
            word = word[size:]
    return (found + [0] * most)[:most]


class Texts:
    """Short texts with their class: as they were written, or as tokens."""

    def __init__(self, *, ready: bool) -> None:
        dice = random.Random(0)
        texts = [_spelled(dice, 160) for _ in range(256)]
        self._samples: list[Any] = [_tokens(text, 64) for text in texts] if ready else texts

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> Any:
        return self._samples[number % 256], number % 10


def _tokenised(batch: Sequence[tuple[Any, int]]) -> Any:
    rows = [_tokens(text, 64) if isinstance(text, str) else text for text, _ in batch]
    return torch.tensor(rows), torch.tensor([label for _, label in batch])


def words_to_tokens(*, slow: bool) -> Iterator[None]:
    """The function that collates a batch cuts its texts into tokens, every time they come by."""
    model = Reader(73, width=32)
    optimizer = _adam(model)
    for x, y in data.DataLoader(Texts(ready=not slow), batch_size=16, collate_fn=_tokenised):
        _learn(model, optimizer, x, y)
        yield


class Spectra:
    """Samples of 8192 numbers, each compressed by itself, or as they are."""

    def __init__(self, *, packed: bool) -> None:
        dice = random.Random(0)
        rows = [dice.randbytes(16384) for _ in range(64)]
        self._rows = [bz2.compress(row) for row in rows] if packed else rows
        self._packed = packed

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> Any:
        row = self._rows[number % 64]
        raw = bz2.decompress(row) if self._packed else row
        return torch.frombuffer(bytearray(raw), dtype=torch.int16).float() / 32768


def packed_spectra(*, slow: bool) -> Iterator[None]:
    """A worker unpacks samples that are stored in a slow format, to train an autoencoder."""
    model = torch.nn.Sequential(
        torch.nn.Conv1d(1, 8, 64, stride=64), torch.nn.ReLU(), torch.nn.Conv1d(8, 16, 4, stride=4), torch.nn.ReLU(),
        torch.nn.ConvTranspose1d(16, 8, 4, stride=4), torch.nn.ReLU(), torch.nn.ConvTranspose1d(8, 1, 64, stride=64),
    )  # fmt: skip
    optimizer = _adam(model)
    for x in data.DataLoader(Spectra(packed=slow), batch_size=16, num_workers=1):
        out = model(x[:, None])
        optimizer.zero_grad()
        functional.mse_loss(out, x[:, None]).backward()
        optimizer.step()
        yield


class Recordings:
    """Batches of sequences, one in nine of which comes from a store that takes its time."""

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> Any:
        # In pieces, as a file that comes in blocks.
        for _ in range(75 if number % 9 == 3 else 1):
            time.sleep(0.002)
        return torch.full((32, 24, 32), (number % 5) / 5), torch.arange(32) % 10


def late_sequence(*, slow: bool) -> Iterator[None]:
    """Workers prepare two batches ahead, too few for the one that is late, in place of sixteen."""
    model = Recurrent(32, 96)
    optimizer = _adam(model)
    for x, y in data.DataLoader(Recordings(), batch_size=None, num_workers=4, prefetch_factor=2 if slow else 16):
        _learn(model, optimizer, x, y)
        yield


class Tracker:
    """A server of metrics: each message is answered some milliseconds later."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for _ in self._far.makefile("rb"):
            time.sleep(0.008)
            self._far.sendall(b"k")

    def post(self, rows: Sequence[dict[str, float]]) -> None:
        """Send, and wait until it is stored."""
        self._near.sendall(json.dumps(rows).encode() + b"\n")
        self._near.recv(1)


def metrics_posted(*, slow: bool) -> Iterator[None]:
    """Metrics go to a server in every step, in place of every fiftieth."""
    model, x, y = Images(32), torch.randn(16, 3, 32, 32), torch.arange(16) % 10
    optimizer = _adam(model)
    tracker, rows = Tracker(), []
    while True:
        loss = _learn(model, optimizer, x, y)
        rows.append({"loss": float(loss), "norm": float(model.head.weight.norm())})
        if slow or len(rows) == 50:
            tracker.post(rows)
            rows.clear()
        yield


def best_is_kept(*, slow: bool) -> Iterator[None]:
    """The state is saved whenever the loss is the lowest so far, which it is in each step; or at most each fiftieth."""
    model = Recurrent(32, 256)
    optimizer = _adam(model)
    x, y = torch.randn(8, 8, 32), torch.arange(8) % 10
    best, saved = float("inf"), 0
    for step in range(1 << 62):
        # Of a real task it falls with every batch, in the beginning.
        loss = float(_learn(model, optimizer, x, y)) - step
        if loss < best and (slow or step >= saved + 50):
            best, saved = loss, step
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, "best.tmp")
            Path("best.tmp").replace("best.pt")
        yield


def _confusion(model: Any, loader: Any, *, in_python: bool) -> Any:
    """How often each class was taken for each."""
    counts = torch.zeros(10, 10, dtype=torch.int64)
    with torch.no_grad():
        for x, y in loader:
            guess = model(x).argmax(1)
            if in_python:
                for row in range(len(y)):
                    counts[int(y[row]), int(guess[row])] += 1
            else:
                counts += torch.bincount(y * 10 + guess, minlength=100).view(10, 10)
    return counts


def evaluated_often(*, slow: bool) -> Iterator[None]:
    """Each eighth step evaluates, with a loader made for it and counts in Python, in place of both kept ready."""
    model, x, y = Images(), torch.randn(32, 3, 32, 32), torch.arange(32) % 10
    optimizer = _adam(model)
    samples = data.TensorDataset(torch.randn(128, 3, 32, 32), torch.arange(128) % 10)
    kept = data.DataLoader(samples, batch_size=32, num_workers=2, persistent_workers=True)
    for step in range(1 << 62):
        _learn(model, optimizer, x, y)
        if step % 8 == 7:
            loader = data.DataLoader(samples, batch_size=32, num_workers=2) if slow else kept
            _confusion(model, loader, in_python=slow)
        yield
