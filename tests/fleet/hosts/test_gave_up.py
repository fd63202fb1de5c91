"""Gloo gives up after its timeout and ends all ranks: the cut link is named from what their watchers kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.fleet.hosts.apart import apart
from tests.fleet.hosts.lab import HERMES
from tests.patience import until
from tests.skips import needs_root

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]
TRAINS = """
import datetime, os, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
step = 0
while True:
    model(torch.randn(8, 64)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    step += 1
    open(f"step-{os.environ['RANK']}", "w").write(str(step))
    time.sleep(0.1)
"""


def test_the_cut_link_of_a_job_that_gave_up_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path / "lab"
    with apart(folder, 3) as hosts:
        hosts.lab.hosts("node1", "node2", "node3")
        (folder / "train.py").write_text(TRAINS)
        for number in (1, 2, 3):
            hosts.begin(number)
        ranks = [
            hosts.on(number, [HERMES, "run", "--no-capture", "--", sys.executable, "train.py"], RANK=str(number - 1),
                     WORLD_SIZE="3", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500", GLOO_SOCKET_IFNAME="eth0",
                     OMP_NUM_THREADS="1") for number in (1, 2, 3)
        ]  # fmt: skip
        until(lambda: all((folder / f"step-{rank}").exists() and int((folder / f"step-{rank}").read_text() or 0) > 20
                          for rank in range(3)), 200)  # fmt: skip
        hosts.cut(3)
        until(lambda: all(one.poll() is not None for one in ranks), 200)
        assert "Timed out" in hosts.output(1) + hosts.output(2) + hosts.output(3)
        # The link works again, no process is left, and no error has named it.
        hosts.cut(3, "up")
        found = json.loads(hosts.fleet("stacks", "29500", "--format", "json", code=(0, 1, 3)))
    assert [one["code"] for one in found["findings"]] == ["link"], found
    assert "no traffic passes the link of node3: connections to 2 other hosts" in found["answer"]["text"]
    assert "before it ended" in json.dumps(found["coverage"])
    assert len(found["ranks"]) == 3
