"""Healthy controls of the zoo, decoys that only look faulty, and programs with two causes of equal size."""

from __future__ import annotations

import gc
import importlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")


def _network(width: int, depth: int) -> Any:
    layers = [part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


class Job:
    """A perceptron that computes some 20 ms a step."""

    def __init__(self, width: int = 512, batch: int = 384) -> None:
        self.model = _network(width, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.x = torch.randn(batch, width)

    def step(self) -> Any:
        """One step; returns the loss."""
        loss = self.model(self.x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def perceptron(*, slow: bool) -> Iterator[None]:
    """A control: a perceptron, its batch in memory."""
    job = Job()
    while True:
        job.step()
        yield


def convolutions(*, slow: bool) -> Iterator[None]:
    """A control: convolutions with batches from a loader whose worker keeps up."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU()
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    samples = data.TensorDataset(torch.randn(4096, 3, 32, 32))
    loader = data.DataLoader(samples, batch_size=16, num_workers=1, persistent_workers=True)
    while True:
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            yield


def cheap_collections(*, slow: bool) -> Iterator[None]:
    """A decoy: the collector is called in every step, and has nothing to look at."""
    job = Job()
    gc.freeze()
    while True:
        job.step()
        gc.collect()
        yield


def cheap_reads(*, slow: bool) -> Iterator[None]:
    """A decoy: the loss and each gradient's first number are read in every step, which costs a host nothing."""
    job = Job()
    while True:
        loss = job.step()
        float(loss)
        for parameter in job.model.parameters():
            parameter.grad.flatten()[0].item()
        yield


def cheap_doubles(*, slow: bool) -> Iterator[None]:
    """A decoy: a sum of losses in float64."""
    job = Job()
    total = torch.zeros((), dtype=torch.float64)
    while True:
        total += job.step().detach().double()
        yield


def cheap_log(*, slow: bool) -> Iterator[None]:
    """A decoy: a line of log and a checkpoint of a kilobyte in every step."""
    logger = logging.getLogger("quiet")
    logger.propagate = False
    logger.addHandler(logging.FileHandler("quiet.log"))
    logger.setLevel(logging.INFO)
    job = Job()
    for step in range(1 << 62):
        logger.info("step %d: loss %.4f", step, float(job.step()))
        if step % 10 == 9:
            torch.save(job.model[0].bias[:64].detach().clone(), Path("small.pt"))
        yield


class Worked:
    """Batches that take some 8 ms of Python, or none."""

    def __init__(self, job: Job, *, work: bool) -> None:
        self._job = job
        self._rounds = 100_000 if work else 0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, number: int) -> Any:
        value = 0.0
        for place in range(self._rounds):
            value = value * 0.5 + place
        return self._job.x


def input_and_collector(*, slow: bool) -> Iterator[None]:
    """Two causes of one size: batches that are made in Python, and a collector that is called."""
    job = Job(width=256, batch=128)
    kept = [[number] for number in range(60_000)]
    gc.collect()
    if not slow:
        gc.freeze()
    for step, _ in enumerate(data.DataLoader(Worked(job, work=slow), batch_size=None)):
        job.step()
        if slow and step % 20 == 19:
            gc.collect()
        yield
    kept.clear()


def doubles_and_loop(*, slow: bool) -> Iterator[None]:
    """Two causes of one size: products in float64, and a loop of tiny operators."""
    dtype = torch.float64 if slow else torch.float32
    model, x = _network(384, 3).to(dtype), torch.randn(192, 384, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    while True:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # The scores of rows, which the loss does not need.
        total = sum((row * 1.01).sum() for row in x[:, :64].repeat(3, 1)) if slow else (x * 1.01).sum()
        float(total)
        yield
