"""Measures the cost of the hooks for a step in one process: watched and unwatched in turn, a block of steps each.

    python benchmarks/capture_turns.py [--steps 50] [--blocks 80] [--no-loader] [--beside 4]

The cost is CPU time of the stepping thread, which other work on the machine changes less than wall time. Printed is the
difference of the medians, and of the lower quartiles, over all steps but the first of each block, in which Python
adapts its code anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

BATCH, ADAPT = 32, 10


def main() -> None:
    """Train in blocks; print the cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="steps of a block")
    parser.add_argument("--blocks", type=int, default=80, help="pairs of blocks")
    parser.add_argument("--width", type=int, default=128, help="width of the model: 128 for a third of a millisecond")
    parser.add_argument("--no-loader", action="store_true", help="make batches without a DataLoader")
    parser.add_argument("--beside", type=int, default=0, help="processes that compute all the time beside this one")
    given = parser.parse_args()
    # In this session: the system shares cores between sessions first.
    beside = [subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(given.beside)]
    try:
        _measure(given)
    finally:
        for one in beside:
            one.kill()


def _measure(given: argparse.Namespace) -> None:
    os.environ["HERMES_RUN_DIR"] = tempfile.mkdtemp(prefix="hermes-bench-")
    step = _training(loader=not given.no_loader, width=given.width)
    import hermes.inside

    hermes.inside.start()
    for _ in range(200):
        step()
    on, off = _switches()
    costs: dict[bool, list[int]] = {True: [], False: []}
    for _ in range(given.blocks):
        for watched in (True, False):
            (on if watched else off)()
            for _ in range(ADAPT):
                step()
            before = time.thread_time_ns()
            for _ in range(given.steps):
                step()
                now = time.thread_time_ns()
                costs[watched].append(now - before)
                before = now
    bare, ours = sorted(costs[False]), sorted(costs[True])
    quarter = len(bare) // 4
    told = {
        "step_us": median(bare) / 1e3,
        "added_us": (median(ours) - median(bare)) / 1e3,
        "added_lower_quartile_us": (ours[quarter] - bare[quarter]) / 1e3,
        "added_mean_us": (sum(ours) - sum(bare)) / len(bare) / 1e3,
        "loader": not given.no_loader,
    }
    sys.stdout.write("COST " + json.dumps(told) + "\n")


def _training(*, loader: bool, width: int) -> Callable[[], None]:
    """A function that runs one step of a small model, some hundred microseconds of work that uses the caches."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = DataLoader(TensorDataset(torch.randn(64 * BATCH, width)), batch_size=BATCH)
    batches = iter(data)
    fixed = torch.randn(BATCH, width)

    def step() -> None:
        nonlocal batches
        x = fixed
        if loader:
            try:
                (x,) = next(batches)
            except StopIteration:
                batches = iter(data)
                (x,) = next(batches)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _switches() -> tuple[Callable[[], None], Callable[[], None]]:
    """Two functions: the first installs hooks and wrappers, the second removes them."""
    import hermes.inside

    agent = hermes.inside._agent
    assert agent is not None
    hooks, patches = agent._hooks, agent._patches
    assert hooks is not None
    assert patches is not None
    from hermes.inside.monitor import hooks as module

    before, after, handles = hooks._before, hooks._after, hooks._handles
    dicts = [handle.hooks_dict_ref() for handle in handles]

    def off() -> None:
        patches.remove()
        for handle, hooked in zip(handles, dicts, strict=True):
            hooked.pop(handle.id, None)

    def on() -> None:
        for handle, hooked, hook in zip(handles, dicts, (before, after), strict=True):
            hooked[handle.id] = hook
        if not patches._undo:
            patches.install(collectives=False)

    assert module.ignore is not before
    return on, off


if __name__ == "__main__":
    main()
