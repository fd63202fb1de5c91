"""A process eats the cores of one rank of four hosts: it is named, and stopping it gives what was predicted."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.fleet.hosts.apart import Apart, apart
from tests.fleet.hosts.lab import HERMES
from tests.fleet.hosts.test_hosts_apart import status, steps
from tests.patience import until
from tests.skips import needs_root

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]
LATE, CORE = 2, "1"
JOB = """
import datetime, os, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
while True:
    model(torch.randn(8, 64)).sum().backward()
    # The others pause, as if for a device: they share a core, and would hold each other up.
    end = time.thread_time() + 0.03
    while os.environ["RANK"] == "LATE" and time.thread_time() < end:
        pass
    time.sleep(0.07 if os.environ["RANK"] == "LATE" else 0.1)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
""".replace("LATE", str(LATE))
FIRST = ("setsid", "sh", "-c", 'echo -20 > /proc/self/autogroup; exec nice -n -20 "$@"', "sh")
"""Before all that runs beside: only what the test itself runs may take the cores of the job."""
EATS = "while True: pass  # eats a core"


def beyond(found: dict[str, Any]) -> float:
    """By how many milliseconds a step takes the rank longer than the median of the others, in what it does itself."""
    own = {row["rank"]: row["own_ns"] / 1e6 for row in found["ranks"]}
    return float(own.pop(LATE) - median(own.values()))


def captured_at_once(made: Apart) -> tuple[int, bool]:
    """The rank that `hermes fleet watch --capture` records by itself, and whether it has a trace."""
    words = ("watch", "--capture", "--ranks", "worst", "--every", "1", "--format", "json")
    with made.begun_fleet(*words) as watching:
        assert watching.stdout is not None
        found = next(one for line in watching.stdout if (one := json.loads(line))["schema"] == "hermes.fleet-capture/1")
        watching.terminate()
    (rank,) = found["ranks"]
    return rank["rank"], found["whole"]


def test_stopping_the_process_that_eats_the_cores_gives_what_was_predicted(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    with apart(tmp_path / "lab", 4) as made:
        (tmp_path / "lab" / "job.py").write_text(JOB)
        made.lab.hosts("node1", "node2", "node3", "node4")
        for number in range(1, 5):
            made.begin(number)
            pinned = [*FIRST, "taskset", "-c", CORE if number == LATE + 1 else "0"]
            made.on(number, [*pinned, HERMES, "run", "--collectives", "--no-capture", "--", sys.executable, "job.py"],
                    RANK=str(number - 1), WORLD_SIZE="4", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500",
                    GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")  # fmt: skip
        until(lambda: len(steps(made)) == 4 and min(steps(made).values()) > 20, 300)
        for _ in range(2):
            made.on(LATE + 1, [*FIRST, "taskset", "-c", CORE, sys.executable, "-c", EATS])

        def after(count: int) -> dict[str, Any]:
            last = max(steps(made).values())
            until(lambda: min(steps(made).values()) > last + count, 300)
            return status(made)

        slow = after(110)
        named = [one for one in slow["findings"] if one["code"] == "what else" and "eats a core" in json.dumps(one)]
        assert [one["where"]["ranks"] for one in slow["findings"] if one["code"] == "straggler"] == [[LATE]]
        assert len(named) == 2, slow["findings"]
        assert all(
            "on node3 process" in one["message"]["text"] and "of root" in one["message"]["text"] for one in named
        )
        assert captured_at_once(made) == (LATE, True)
        predicted = named[0]["cost_ms"]
        # As its user would: by the numbers that were named.
        pids = [re.search(r"process (\d+) ", one["message"]["text"])[1] for one in named]  # type: ignore[index]
        made.on(LATE + 1, ["kill", "-KILL", *pids])
        fast = after(110)
        # The machine is shared with others, whose load makes all ranks slower: what counts is the time beyond theirs.
        gained = beyond(slow) - beyond(fast)
        assert predicted > 5, (beyond(slow), beyond(fast), predicted)
        assert gained > 0.4 * predicted, (beyond(slow), beyond(fast), predicted)
        assert not [one for one in fast["findings"] if "eats a core" in json.dumps(one)]
