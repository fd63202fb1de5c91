"""Trains a small model and prints the cost of a step, with and without capture; run by the suite `capture`.

    python benchmarks/capture_cost.py MODE STEPS [WIDTH]

MODE is `bare`, `monitor`, or the level of a capture of three steps; the suffix `+no-stack` turns stacks off. Costs are
CPU time of the stepping thread, which other work on the machine changes less than wall time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

CAPTURED = 3


def main(mode: str, steps: int, width: int) -> None:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(1)
    torch.set_num_threads(1)
    import_ns, start_ns = _start() if mode != "bare" else (0, 0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(64 * 32, width)), batch_size=32)
    costs: list[int] = []
    walls: list[int] = []
    asked = 0
    while len(costs) < steps:
        before, wall = time.thread_time_ns(), time.perf_counter_ns()
        for (x,) in loader:
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            now, end = time.thread_time_ns(), time.perf_counter_ns()
            costs.append(now - before)
            walls.append(end - wall)
            before, wall = now, end
            if mode not in ("bare", "monitor") and len(costs) == 40:
                asked = _ask(mode, len(costs) + 4)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told = {"cpu_ns": median(costs[20:]), "mean_ns": sum(costs[20:]) / len(costs[20:]), "wall_ns": median(walls[20:])}
    told |= {"import_ns": import_ns, "start_ns": start_ns, "peak": peak}
    if asked:
        inside = costs[asked : asked + CAPTURED - 1]
        trace = next(Path(os.environ["HERMES_RUN_DIR"]).parent.glob("out/*.json"))
        told |= {"inside_ns": median(inside), "held_ns": max(costs[asked:]), "bytes": trace.stat().st_size}
    print("COST " + json.dumps(told))


def _start() -> tuple[int, int]:
    folder = tempfile.mkdtemp(prefix="hermes-bench-")
    os.environ["HERMES_RUN_DIR"] = f"{folder}/jobs"
    first = time.process_time_ns()
    import hermes.inside

    second = time.process_time_ns()
    hermes.inside.start()
    return second - first, time.process_time_ns() - second


def _ask(level: str, step: int) -> int:
    from hermes.inside.wire.control import Control, Request
    from hermes.inside.wire.rundir import jobs

    root = Path(os.environ["HERMES_RUN_DIR"])
    job = next(jobs(root))
    Control.attach(job.segment).ask(
        Request(
            action="profile", start_step=step, steps=CAPTURED, level=level.partition("+")[0], reason="benchmark",
            out=str(root.parent / "out"), deadline_ns=time.time_ns() + 10**11,
            options={"stack": "no"} if level.endswith("+no-stack") else {},
        )
    )  # fmt: skip
    return step


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 128)
