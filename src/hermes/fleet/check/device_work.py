"""A script for a Python with torch: measures matrix products, copies and all-reduce on this node's devices.

The script is a program of its own and imports nothing of Hermes: `python -I device_work.py OUT`. Each line of OUT is
JSON.
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
"""Side of the square matrices that are multiplied. Published rates for 16-bit floats are highest from this size on."""
COPIED = 256 << 20
REDUCED = 64 << 20
TRIES = 5
NO_TORCH = 3
PATIENCE_S = 240


def best(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of the fastest of a few calls of `work`, after two calls that warm up."""
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
    """The torch module of the devices, their torch name, and the name of their collectives' backend."""
    if hasattr(torch, "npu") and torch.npu.is_available():
        return torch.npu, "npu", "hccl"
    if torch.cuda.is_available():
        return torch.cuda, "cuda", "nccl"
    return None, "cpu", "gloo"


def of_device(torch: Any, module: Any, kind: str, index: int, say: Callable[..., None]) -> None:
    """Measure one device while the other devices are idle, and report its readings by `say`."""
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
    """Bus bandwidth of an all-reduce in bytes a second: 2 (n - 1) / n times the size, over the time."""
    where = torch.device(kind, index) if module else torch.device("cpu")
    data = torch.ones(REDUCED // 4, device=where)
    wait = (lambda: module.synchronize(where)) if module else (lambda: None)
    seconds = best(lambda: torch.distributed.all_reduce(data, group=group), wait)
    return 2.0 * (size - 1) / size * REDUCED / seconds


def all_reduce_inside_node(torch: Any, out: str, size: int) -> None:
    """Measure the all-reduce between this node's devices, or between two processes without devices: one process
    each."""
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
    """The work of one of the processes that `all_reduce_inside_node` starts."""
    module, kind, name = backend(torch)
    if module:
        module.set_device(rank)
    torch.distributed.init_process_group(name, init_method=f"file://{meet}", rank=rank, world_size=size)
    value = reduced(torch, module, kind, rank, None, size)
    if rank == 0:
        say("all_reduce", value)
    torch.distributed.destroy_process_group()


def pairs(torch: Any, say: Callable[..., None]) -> None:
    """Measure the all-reduce between this node and other nodes in pairs; RANK, WORLD_SIZE and MASTER_ADDR say where all
    meet.

    In each round of a tournament, a node has one partner. There are log2(nodes) rounds, so each node has that many
    partners.
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
            # Every process makes every group, in the same order; only a group's members use it.
            group = torch.distributed.new_group(list(pair))
            if rank in pair:
                value = reduced(torch, module, kind, 0, group, 2)
                say("pair", value, part=names[pair[0] if rank == pair[1] else pair[1]])
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def rounds(size: int) -> list[list[tuple[int, int]]]:
    """Pairs of nodes by round (circle method). A node is in one pair a round; there are log2(nodes) rounds."""
    players = list(range(size)) + ([-1] if size % 2 else [])
    found = []
    for _ in range(max((size - 1).bit_length(), 1)):
        half = len(players) // 2
        both = zip(players[:half], reversed(players[half:]))  # noqa: B905 - Python 3.8 knows no strict
        found.append([(min(pair), max(pair)) for pair in both if -1 not in pair])
        players = [players[0], players[-1], *players[1:-1]]
    return found


def main(arguments: list[str]) -> int:
    """Run the requested measurement; returns the exit code, 3 if torch is not installed."""
    try:
        import torch
    except ImportError:
        return NO_TORCH
    with contextlib.suppress(ImportError):
        # This import adds torch.npu.
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
    all_reduce_inside_node(torch, out, max(count, 2)) if count != 1 else None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("MASTER_ADDR"):
        pairs(torch, say)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
