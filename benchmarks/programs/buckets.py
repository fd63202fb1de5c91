"""Trains a perceptron with DistributedDataParallel over gloo: `buckets.py CAP[,CAP] FOLDER`, or `-` for no profile."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH, LAYERS, BATCH, WARM, STEPS = 1_024, 8, 128, 3, 30


def main() -> None:
    """Train one model for each bucket size, in turn, and print the median steps of rank 0 in milliseconds."""
    caps, out = [float(cap) for cap in sys.argv[1].split(",")], sys.argv[2]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    models = [_model(cap) for cap in caps]
    batch = torch.randn(BATCH, WIDTH)
    lasted: list[list[float]] = [[] for _ in caps]
    with _profiler(out) as profiler:
        for _ in range(WARM + STEPS):
            for (model, optimizer), own in zip(models, lasted, strict=True):
                own.append(_step(model, optimizer, batch))
            if profiler is not None:
                profiler.step()
    if dist.get_rank() == 0:
        print("median", *(median(own[WARM:]) * 1e3 for own in lasted), flush=True)
    dist.destroy_process_group()


def _model(cap: float):  # type: ignore[no-untyped-def]
    layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=cap)
    return model, torch.optim.SGD(model.parameters(), lr=0.001)


def _step(model, optimizer, batch) -> float:  # type: ignore[no-untyped-def]
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    # As trainers read the loss for their logs.
    dist.all_reduce(loss.detach())
    return time.perf_counter() - begin


def _profiler(out: str):  # type: ignore[no-untyped-def]
    if out == "-":
        return nullcontext()
    path = f"{out}/rank{os.environ['RANK']}.json"
    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=2, warmup=1, active=STEPS),
        record_shapes=True,
        on_trace_ready=lambda done: done.export_chrome_trace(path),
    )


if __name__ == "__main__":
    main()
