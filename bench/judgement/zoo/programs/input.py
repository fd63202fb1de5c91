"""Zoo programs whose step waits for its batch, for a file, or for its own writes."""

from __future__ import annotations

import importlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")

WIDTH, BATCH = 256, 32


class Learner:
    """A multi-layer perceptron and its optimizer."""

    def __init__(self, depth: int = 4) -> None:
        layers = [part for _ in range(depth) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def learn(self, x: Any, y: Any) -> None:
        """One step."""
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def _epochs(loader: Any, learner: Learner) -> Iterator[None]:
    while True:
        for x, y in loader:
            learner.learn(x, y)
            yield


def _features(seed: int) -> list[float]:
    """About a tenth of a millisecond of pure Python."""
    value, found = seed % 997 + 1.0, []
    for place in range(WIDTH):
        value = (value * 16807.0 + place) % 2147483647.0
        found.append(value / 2147483647.0)
    return found


class Transformed:
    """Samples that are worked out when they are asked for, or once at first."""

    def __init__(self, *, ready: bool) -> None:
        self._ready = [torch.tensor(_features(seed)) for seed in range(512)] if ready else None

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Any:
        x = self._ready[number % 512] if self._ready else torch.tensor(_features(number % 512))
        return x, number % 10


def heavy_transform(*, slow: bool) -> Iterator[None]:
    """Samples are made in pure Python by the training process."""
    yield from _epochs(data.DataLoader(Transformed(ready=not slow), batch_size=BATCH), Learner())


class Files:
    """A batch is 32 samples of 1 KB: of a file each, or in a row in one; the page cache holds none of them."""

    def __init__(self, *, many: bool) -> None:
        self._many = many
        folder = Path("files")
        folder.mkdir(exist_ok=True)
        self._names = [folder / f"{number}.bin" for number in range(2048 if many else 1)]
        for name in self._names:
            with name.open("wb") as file:
                file.write(os.urandom(1024 * (1 if many else 2048)))
                file.flush()
                os.fsync(file.fileno())
        self._dice = random.Random(0)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Any:
        raw = b"".join(self._many_reads() if self._many else [self._read(self._names[0], number % 64 * 32768, 32768)])
        values = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(BATCH, 1024)[:, :WIDTH]
        return values.float() / 255, torch.arange(BATCH) % 10

    def _many_reads(self) -> Iterator[bytes]:
        for _ in range(BATCH):
            yield self._read(self._names[self._dice.randrange(len(self._names))], 0, 1024)

    def _read(self, name: Path, offset: int, size: int) -> bytes:
        with name.open("rb") as file:
            file.seek(offset)
            raw = file.read(size)
            os.posix_fadvise(file.fileno(), offset, size, os.POSIX_FADV_DONTNEED)
        return raw


def small_files(*, slow: bool) -> Iterator[None]:
    """A file for each sample, in place of one that is read in a row."""
    yield from _epochs(data.DataLoader(Files(many=slow), batch_size=None), Learner())


class Remote:
    """Samples that come from far away: half a millisecond each, in which nothing is computed."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Any:
        time.sleep(0.0005)
        return torch.full((WIDTH,), float(number % 7)), number % 10


def one_worker(*, slow: bool) -> Iterator[None]:
    """One worker waits for far storage, in place of eight that wait at once."""
    workers = 1 if slow else 8
    yield from _epochs(data.DataLoader(Remote(), batch_size=BATCH, num_workers=workers), Learner())


def workers_anew(*, slow: bool) -> Iterator[None]:
    """Epochs of eight batches, each with workers of its own."""
    samples = data.TensorDataset(torch.randn(8 * BATCH, WIDTH), torch.arange(8 * BATCH) % 10)
    loader = data.DataLoader(samples, batch_size=BATCH, num_workers=2, persistent_workers=not slow)
    yield from _epochs(loader, Learner())


class Rows:
    """Samples of 1024 numbers that lie in memory, as lists or as tensors."""

    def __init__(self, *, lists: bool) -> None:
        rows: list[Any] = [[float(number % 13)] * 1024 for number in range(64)]
        self._rows = rows if lists else [torch.tensor(row) for row in rows]

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Any:
        return self._rows[number % 64]


def _as_lists(batch: list[list[float]]) -> list[list[float]]:
    return batch


def lists_between(*, slow: bool) -> Iterator[None]:
    """Workers hand over lists of numbers, which the loop unpickles and converts, in place of tensors."""
    collate = _as_lists if slow else torch.stack
    learner = Learner()
    labels = torch.arange(64) % 10
    for batch in data.DataLoader(Rows(lists=slow), batch_size=64, num_workers=2, collate_fn=collate):
        x = torch.tensor(batch) if slow else batch
        learner.learn(x[:, :WIDTH], labels)
        yield


def metrics_each_step(*, slow: bool) -> Iterator[None]:
    """Metrics reach the disk in every step, in place of every hundredth."""
    learner, x, y = Learner(), torch.randn(BATCH, WIDTH), torch.arange(BATCH) % 10
    with Path("metrics.jsonl").open("a", encoding="utf-8") as file:
        for step in range(1 << 62):
            learner.learn(x, y)
            file.write(json.dumps({"step": step, "grads": [float(p.grad.norm()) for p in learner.model.parameters()]}))
            if slow or step % 100 == 99:
                file.flush()
                os.fsync(file.fileno())
            yield


class SlowFile:
    """A file on a disk of 80 MB a second."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, raw: Any) -> int:
        """Write, no faster than that disk."""
        size = len(raw)
        time.sleep(size / 80e6)
        return self._file.write(raw)

    def flush(self) -> None:
        """Nothing is kept back."""
        self._file.flush()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _save(state: Any) -> None:
    file = SlowFile(Path(f"checkpoint-{threading.get_ident()}.pt"))
    torch.save(state, file)
    file.close()


def checkpoint_waits(*, slow: bool) -> Iterator[None]:
    """Each twentieth step waits until 10 MB are written, in place of a copy that a thread writes."""
    learner, x, y = Learner(), torch.randn(8 * BATCH, WIDTH), torch.arange(8 * BATCH) % 10
    extra = torch.randn(2_250_000)
    writer: threading.Thread | None = None
    for step in range(1 << 62):
        learner.learn(x, y)
        if step % 20 == 19:
            state = {**learner.model.state_dict(), "extra": extra}
            if slow:
                _save(state)
            else:
                if writer is not None:
                    writer.join()
                copy = {name: tensor.clone() for name, tensor in state.items()}
                writer = threading.Thread(target=_save, args=(copy,), daemon=True)
                writer.start()
        yield


def _chain(table: Any, row: int) -> Any:
    return (table[row] * 1.01 + 0.1).sum()


def busy_but_hidden(*, slow: bool) -> Iterator[None]:
    """A decoy: a worker is busy all the time, but ahead; what costs is a loop of tiny operators."""
    learner = Learner()
    for x, y in data.DataLoader(Transformed(ready=False), batch_size=BATCH, num_workers=1):
        learner.learn(x, y)
        table = x.repeat(16, 1)
        score = sum(_chain(table, row) for row in range(512)) if slow else (table * 1.01 + 0.1).sum()
        float(score)
        yield
