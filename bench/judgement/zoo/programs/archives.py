"""Zoo programs in other authors' style: boxes and archives before the step, and a state that is saved beside it."""

from __future__ import annotations

import importlib
import queue
import random
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")
functional: Any = importlib.import_module("torch.nn.functional")
rnn: Any = importlib.import_module("torch.nn.utils.rnn")

FOREVER = 1_000_000


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


class Scenes:
    """Pictures of 48 pixels a side, each with one to eight boxes and what is said about them."""

    def __init__(self) -> None:
        self._pictures = torch.randint(0, 256, (64, 3, 48, 48), dtype=torch.uint8)
        self._corners = torch.rand(64, 8, 4)

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> tuple[Any, dict[str, Any]]:
        place, count = number % 64, 1 + number % 8
        boxes = self._corners[place, :count].clone()
        about = {
            "boxes": boxes, "labels": torch.arange(count) % 5, "area": boxes[:, 2] * boxes[:, 3],
            "crowd": torch.zeros(count, dtype=torch.bool),
        }  # fmt: skip
        return self._pictures[place].float() / 255, about


def _as_it_is(batch: Any) -> Any:
    return batch


def _filled_up(batch: Sequence[tuple[Any, dict[str, Any]]]) -> tuple[Any, Any, Any, Any]:
    """Pictures, boxes, labels and weights, each as one tensor: where there is no box, the label is -1."""
    pictures, about = zip(*batch, strict=True)
    boxes, areas = (rnn.pad_sequence([one[name] for one in about], batch_first=True) for name in ("boxes", "area"))
    labels = [one["labels"].masked_fill(one["crowd"], -1) for one in about]
    return torch.stack(pictures), boxes, rnn.pad_sequence(labels, batch_first=True, padding_value=-1), 2 - areas


def boxes_apart(*, slow: bool) -> Iterator[None]:
    """Workers hand over each picture and each list of boxes as a tensor of its own; the cure is four tensors a batch.

    Every tensor comes by a piece of shared memory, which the training process must ask for.
    """
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 48, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(48 * 144, 72), torch.nn.Unflatten(1, (8, 9)),
    )  # fmt: skip
    optimizer = _adam(model)
    collate = _as_it_is if slow else _filled_up
    for batch in data.DataLoader(Scenes(), batch_size=8, num_workers=2, collate_fn=collate):
        x, boxes, labels, weights = _filled_up(batch) if slow else batch
        found = model(x)
        off = functional.smooth_l1_loss(found[..., :4], boxes, reduction="none").mean(2)
        loss = (off * weights * (labels >= 0)).mean()
        loss = loss + functional.cross_entropy(found[..., 4:].flatten(0, 1), labels.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Archive:
    """Pictures of 32 pixels a side in a zip file, which is opened for each of them, or once."""

    def __init__(self, *, reopened: bool) -> None:
        self._path = Path("pictures.zip")
        dice = random.Random(0)
        with zipfile.ZipFile(self._path, "w") as archive:
            for number in range(320):
                archive.writestr(f"train/{number % 10}/{number:06}.raw", dice.randbytes(3 * 32 * 32))
        self._open = None if reopened else zipfile.ZipFile(self._path)

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> tuple[Any, int]:
        # As if shuffled.
        place = number * 37 % 320
        name = f"train/{place % 10}/{place:06}.raw"
        if self._open:
            raw = self._open.read(name)
        else:
            with zipfile.ZipFile(self._path) as archive:
                raw = archive.read(name)
        picture = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(3, 32, 32)
        return picture.float() / 255, place % 10


def archive_reopened(*, slow: bool) -> Iterator[None]:
    """The archive is opened, and its list of names read, for each picture; the cure keeps it open."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 32, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = _adam(model)
    for x, y in data.DataLoader(Archive(reopened=slow), batch_size=12):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


def _writes(states: queue.Queue[Any]) -> None:
    while True:
        torch.save(states.get(), "state.tmp")
        Path("state.tmp").replace("state.pt")


def state_aside(*, slow: bool) -> Iterator[None]:
    """A decoy: each tenth step hands a copy of a small state to a thread, which writes it while training goes on."""
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 512), torch.nn.GELU(),
        torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 10),
    )  # fmt: skip
    optimizer = _adam(model)
    x, y = torch.randn(512, 256), torch.arange(512) % 10
    states: queue.Queue[Any] = queue.Queue(1)
    threading.Thread(target=_writes, args=(states,), daemon=True).start()
    for step in range(1 << 62):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % 10 == 9:
            states.put({name: value.clone() for name, value in model.state_dict().items()})
        yield
