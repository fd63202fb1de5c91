"""Zoo programs whose host delays the step: Python, garbage collection, compilation, threads, other processes."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

torch: Any = importlib.import_module("torch")


def _network(width: int = 256, depth: int = 4) -> Any:
    layers = [part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))


def _learn(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def _plain(width: int = 256, depth: int = 4, batch: int = 64) -> tuple[Any, Any, Any, Any]:
    model = _network(width, depth)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return model, optimizer, torch.randn(batch, width), torch.arange(batch) % 10


def gc_called(*, slow: bool) -> Iterator[None]:
    """Each fifth step calls the collector, which looks at 300,000 objects."""
    job = _plain()
    kept = [[number] for number in range(300_000)]
    gc.collect()
    if not slow:
        gc.freeze()
    for step in range(1 << 62):
        _learn(*job)
        if slow and step % 5 == 4:
            gc.collect()
        yield
    kept.clear()


class Node:
    """An object that refers to itself through another: only the collector frees it."""

    def __init__(self) -> None:
        self.other = [self]


def gc_heap(*, slow: bool) -> Iterator[None]:
    """The collector comes by itself, often, to a heap that lives as long as the program."""
    job = _plain()
    job[0].vocabulary = [[number] for number in range(100_000)]
    gc.collect()
    # The program says that old objects are to be looked at often; frozen ones are not looked at.
    gc.set_threshold(700, 2, 2)
    if not slow:
        gc.freeze()
    while True:
        _learn(*job)
        made = [Node() for _ in range(4000)]
        made.clear()
        yield


_BURN = "while True: pass"


def _dies_with_parent() -> None:
    # PR_SET_PDEATHSIG of prctl(2): whoever kills the program ends these too.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def rogue_process(*, slow: bool) -> Iterator[None]:
    """Four processes that are not of the job take the cores."""
    job = _plain(width=512)
    command = [sys.executable, "-S", "-c", _BURN]
    # They belong to the session of the job only so that they rest when it rests.
    rogues = [subprocess.Popen(command, preexec_fn=_dies_with_parent) for _ in range(4 if slow else 0)]
    try:
        while True:
            _learn(*job)
            yield
    finally:
        for rogue in rogues:
            rogue.kill()


def tiny_ops(*, slow: bool) -> Iterator[None]:
    """A loop over the rows of a batch, three operators each, in place of three operators."""
    job = _plain()
    table, weight = torch.randn(1024, 64), torch.randn(64)
    while True:
        loss = _learn(*job)
        if slow:
            score = sum(((row * weight).sum().tanh() for row in table), torch.zeros(()))
        else:
            score = (table * weight).sum(1).tanh().sum()
        loss = loss.detach() + score
        yield


def heads_apart(*, slow: bool) -> Iterator[None]:
    """Sixty-four small products one by one, in place of a batched one."""
    weight = torch.nn.Parameter(torch.randn(64, 24, 24) / 5)
    optimizer = torch.optim.SGD([weight], lr=0.001)
    x = torch.randn(64, 16, 24)
    while True:
        out = torch.stack([x[head] @ weight[head] for head in range(64)]) if slow else torch.bmm(x, weight)
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        yield


def recompile(*, slow: bool) -> Iterator[None]:
    """Each step has a batch of another size, and a compiled model that is not told that sizes change."""
    torch._dynamo.config.cache_size_limit = torch._dynamo.config.accumulated_cache_size_limit = 1 << 30
    model = _network(64, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compiled = torch.compile(model, backend="aot_eager", dynamic=not slow)
    for step in range(1 << 62):
        batch = 16 + step % 4000
        _learn(compiled, optimizer, torch.randn(batch, 64), torch.arange(batch) % 10)
        yield


def optimizer_loop(*, slow: bool) -> Iterator[None]:
    """Adam updates 240 small parameters one by one, in place of a fused update."""
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(120)))
    options = {"foreach": False} if slow else {"fused": True}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **options)
    x = torch.randn(8, 32)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield


def anomaly(*, slow: bool) -> Iterator[None]:
    """Autograd's anomaly detection is on."""
    model = torch.nn.Sequential(*(part for _ in range(40) for part in (torch.nn.Linear(64, 64), torch.nn.Tanh())))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(16, 64)
    while True:
        optimizer.zero_grad()
        with torch.autograd.detect_anomaly(check_nan=True) if slow else contextlib.nullcontext():
            model(x).square().mean().backward()
        optimizer.step()
        yield


def debug_log(*, slow: bool) -> Iterator[None]:
    """The log holds every gradient in words, in place of none."""
    logger = logging.getLogger("training")
    logger.propagate = False
    logger.addHandler(logging.FileHandler("training.log"))
    logger.setLevel(logging.DEBUG if slow else logging.WARNING)
    job = _plain()
    for step in range(1 << 62):
        _learn(*job)
        if logger.isEnabledFor(logging.DEBUG):
            for name, parameter in job[0].named_parameters():
                logger.debug("step %d, %s: %s", step, name, parameter.grad)
        yield


def finite_checks(*, slow: bool) -> Iterator[None]:
    """Each module's output is searched for numbers that are not finite."""
    job = _plain(width=256, depth=12, batch=64)
    if slow:

        def check(module: Any, _given: Any, output: Any) -> None:
            for tensor in (output, *module.parameters()):
                if not bool(torch.isfinite(tensor).all()) or float(tensor.abs().max()) > 1e6:
                    raise FloatingPointError(type(module).__name__)

        for module in job[0]:
            module.register_forward_hook(check)
    while True:
        _learn(*job)
        yield


def lock_thread(*, slow: bool) -> Iterator[None]:
    """Another thread runs Python all the time and holds the interpreter's lock."""
    job = _plain(width=64, depth=8, batch=16)

    def poll() -> None:
        count = 0
        while True:
            count += 1

    if slow:
        threading.Thread(target=poll, daemon=True).start()
    while True:
        _learn(*job)
        yield


def many_threads(*, slow: bool) -> Iterator[None]:
    """Sixteen threads for each operator, whatever the cores, in place of one."""
    torch.set_num_threads(16 if slow else 1)
    model = torch.nn.Sequential(*(part for _ in range(12) for part in (torch.nn.Linear(160, 160), torch.nn.Tanh())))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(256, 160)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield
