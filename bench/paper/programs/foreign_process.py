"""A step of 374 ms on one core, and another user's process that takes 16% of the core, except with `--after`.

The published job took 444 ms a step. Both processes get the highest priority on the machine if root may set it: other
work would otherwise act as a second foreign process.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")

BEFORE_S, STEP_S = 0.444, 0.374
BURST_S = 0.014
SLEEP_S = BURST_S * STEP_S / (BEFORE_S - STEP_S)
FOREIGN = f"""
import os, time
while True:
    end = time.thread_time() + {BURST_S}
    while time.thread_time() < end:
        pass
    time.sleep({SLEEP_S})
    os.kill({{job}}, 0)  # nobody needs it when the job has ended
"""


def first(core: int) -> None:
    """Stand on one core, before what else runs there."""
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20", "ascii")
        os.nice(-20)


def begin_foreign(core: int) -> None:
    """A process that is no child of the job: whoever started it has ended."""
    if os.fork() == 0:
        os.setsid()
        first(core)
        null = subprocess.DEVNULL
        subprocess.Popen([sys.executable, "-S", "-c", FOREIGN.format(job=os.getppid())], stdout=null, stderr=null)
        os._exit(0)
    os.wait()


def main() -> None:
    """Train; with `--after` say how long a step is, and end."""
    after = "--after" in sys.argv
    torch.set_num_threads(1)
    core = max(os.sched_getaffinity(0))
    first(core)
    if not after:
        begin_foreign(core)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(64, 512)
    begun = []
    for step in itertools.count():
        begun.append(time.perf_counter())
        end = time.thread_time() + STEP_S
        optimizer.zero_grad()
        while time.thread_time() < end:
            model(x).square().mean().backward()
        optimizer.step()
        if after and step > 30:
            break
    steps = sorted(later - one for one, later in itertools.pairwise(begun[5:]))
    print(f"{1e3 * steps[len(steps) // 2]:.3f}")


if __name__ == "__main__":
    main()
