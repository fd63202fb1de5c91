"""Trains on gloo, one process a rank; one rank at a time computes, sleeps, reads or collects garbage longer.

    python benchmarks/straggling.py FOLDER STORE RANK WORLD FAMILY STEPS MEAN_MS

Each rank is the slow one for STEPS steps, in turn; in the family `even` no rank is slow. `stragglers.py` starts this
script.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from pathlib import Path

PATTERN_SEED = 11
ROOT = Path(__file__).resolve().parents[1]


def order(world: int) -> list[int]:
    """The slow rank of each stretch: each rank once."""
    ranks = list(range(world))
    random.Random(PATTERN_SEED).shuffle(ranks)
    return ranks


def longer(family: str, ns: int, path: Path, junk: list[object]) -> None:
    """Do the slow work of a family for `ns` nanoseconds."""
    if family == "computes":
        end = time.thread_time_ns() + ns
        while time.thread_time_ns() < end:
            pass
    elif family == "sleeps":
        time.sleep(ns / 1e9)
    elif family == "reads":
        _read(path, ns)
    elif family == "collects":
        end = time.thread_time_ns() + ns
        while time.thread_time_ns() < end:
            junk.append([junk])
            gc.collect()


def _read(path: Path, ns: int) -> None:
    """Read from the disk, and not from the cache: like a slow file system, a block each millisecond."""
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while time.perf_counter_ns() < end and file.read(1 << 16):
                time.sleep(0.001)


def main() -> None:
    """Train as one rank."""
    folder, store, rank, world, family, steps, mean_ms = (
        Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], int(sys.argv[6]),
        float(sys.argv[7]),
    )  # fmt: skip
    sys.path.insert(0, str(ROOT / "src"))
    import torch
    import torch.distributed as dist

    import hermes.inside

    torch.set_num_threads(1)
    torch.manual_seed(0)
    hermes.inside.start(collectives=True)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    path = folder / f"data{rank}"
    path.write_bytes(os.urandom(1 << 20))
    # Without this, the objects of torch would make each collection as long as the rest of a step.
    gc.freeze()
    junk: list[object] = [[number] for number in range(20_000)]
    dice = random.Random(rank)
    for slow in order(world) if family != "even" else [-1]:
        for _ in range(steps):
            time.sleep(mean_ms / 1e3 * dice.lognormvariate(0, 0.1))
            if rank == slow:
                longer(family, int(mean_ms * 1e6), path, junk)
            optimizer.zero_grad()
            model(torch.ones(4, 64)).square().mean().backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
