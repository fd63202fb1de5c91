"""Run by a Python with torch: matrix products, copies and all-reduce on its devices, else all-reduce between processes.

A program of its own that imports nothing of Hermes: `python -I device_work.py OUT`. Each line of OUT is JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

SIDE = 8192
"""Of the matrix product. Published rates of square products of 16-bit floats are highest from here on."""
COPIED = 256 << 20
REDUCED = 64 << 20
TRIES = 5
NO_TORCH = 3
PATIENCE_S = 240


def best(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of the fastest of a few, after two that warm up."""
    for _ in range(2):
        work()
    wait()
    found = float("inf")
    for _ in range(TRIES):
        begin = time.perf_counter()
        work()
        wait()
        found = min(found, time.perf_counter() - begin)
    return found


def backend(torch: Any) -> tuple[Any, str, str]:
    """The module of the devices, their name for torch, and what their collectives are called."""
    if hasattr(torch, "npu") and torch.npu.is_available():
        return torch.npu, "npu", "hccl"
    if torch.cuda.is_available():
        return torch.cuda, "cuda", "nccl"
    return None, "cpu", "gloo"


def of_device(torch: Any, module: Any, kind: str, index: int, say: Callable[..., None]) -> None:
    """One device alone."""
    device = torch.device(kind, index)
    about = {"part": str(index), "chip": str(module.get_device_name(index))}

    def wait() -> None:
        module.synchronize(device)

    left = torch.randn(SIDE, SIDE, device=device, dtype=torch.bfloat16)
    say("device_matrix", 2.0 * SIDE**3 / best(lambda: torch.matmul(left, left), wait), **about)
    source = torch.ones(COPIED, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    say("device_memory", 2.0 * COPIED / best(lambda: target.copy_(source), wait), **about)
    host = torch.empty(COPIED, dtype=torch.uint8).pin_memory()
    say("copy_in", COPIED / best(lambda: target.copy_(host, non_blocking=True), wait), **about)
    say("copy_out", COPIED / best(lambda: host.copy_(target, non_blocking=True), wait), **about)


def reduced(torch: Any, module: Any, kind: str, index: int, group: Any, size: int) -> float:
    """Bytes a second of an all-reduce, as its bus would have to carry them: 2 (n - 1) / n times the size."""
    where = torch.device(kind, index) if module else torch.device("cpu")
    data = torch.ones(REDUCED // 4, device=where)
    wait = (lambda: module.synchronize(where)) if module else (lambda: None)
    seconds = best(lambda: torch.distributed.all_reduce(data, group=group), wait)
    return 2.0 * (size - 1) / size * REDUCED / seconds


def inside(torch: Any, out: str, size: int) -> None:
    """All-reduce over the devices of this node, or over two processes where there is none: one process each."""
    with tempfile.TemporaryDirectory(prefix="hermes-check-") as folder:
        words = [sys.executable, "-I", __file__, out, f"{folder}/meet", str(size)]
        running = [subprocess.Popen([*words, str(rank)], stdin=subprocess.DEVNULL) for rank in range(size)]
        end = time.monotonic() + PATIENCE_S
        for one in running:
            try:
                one.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                one.kill()


def one_of(torch: Any, meet: str, size: int, rank: int, say: Callable[..., None]) -> None:
    """One process of `inside`."""
    module, kind, name = backend(torch)
    if module:
        module.set_device(rank)
    torch.distributed.init_process_group(name, init_method=f"file://{meet}", rank=rank, world_size=size)
    value = reduced(torch, module, kind, rank, None, size)
    if rank == 0:
        say("all_reduce", value)
    torch.distributed.destroy_process_group()


def pairs(torch: Any, say: Callable[..., None]) -> None:
    """All-reduce between this node and others, two at a time: all meet as RANK, WORLD_SIZE and MASTER_ADDR say.

    In round r of the tournament each node has one partner; log2 of the nodes many rounds give each node that many.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    module, kind, name = backend(torch)
    if module:
        module.set_device(0)
    torch.distributed.init_process_group(name)
    names: list[str] = [""] * size
    torch.distributed.all_gather_object(names, os.environ.get("HERMES_CHECK_NODE", str(rank)))
    for round_ in rounds(size):
        for pair in round_:
            # Everybody makes every group, in the same order; only its members use it.
            group = torch.distributed.new_group(list(pair))
            if rank in pair:
                value = reduced(torch, module, kind, 0, group, 2)
                say("pair", value, part=names[pair[0] if rank == pair[1] else pair[1]])
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def rounds(size: int) -> list[list[tuple[int, int]]]:
    """Pairs by rounds, each node at most once in one: the circle method, of which log2 of the nodes many are played."""
    players = list(range(size)) + ([-1] if size % 2 else [])
    found = []
    for _ in range(max((size - 1).bit_length(), 1)):
        half = len(players) // 2
        both = zip(players[:half], reversed(players[half:]))  # noqa: B905 - Python 3.8 knows no strict
        found.append([(min(pair), max(pair)) for pair in both if -1 not in pair])
        players = [players[0], players[-1], *players[1:-1]]
    return found


def main(arguments: list[str]) -> int:
    """What is asked for; 3 where there is no torch."""
    try:
        import torch
    except ImportError:
        return NO_TORCH
    with contextlib.suppress(ImportError):
        # It adds torch.npu.
        import_module("torch_npu")
    out = arguments[0]

    def say(check: str, value: float, **about: str) -> None:
        with Path(out).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"check": check, "value": value, **about}) + "\n")

    if len(arguments) == 4:
        one_of(torch, arguments[1], int(arguments[2]), int(arguments[3]), say)
        return 0
    module, kind, _ = backend(torch)
    count = module.device_count() if module else 0
    for index in range(count):
        of_device(torch, module, kind, index, say)
    inside(torch, out, max(count, 2)) if count != 1 else None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("MASTER_ADDR"):
        pairs(torch, say)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
