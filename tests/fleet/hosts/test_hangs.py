"""Eight ranks on four hosts hang: who did not enter the collective is named with host and line; so is a cut link."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.hosts.apart import Apart, apart
from tests.fleet.hosts.lab import HERMES
from tests.patience import until
from tests.skips import needs_root

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]
STEP_S = 3.0
DDP = """
import datetime, os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
model = DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def load():
    while os.path.exists(f"hang-{rank}"):
        time.sleep(0.2)  # the planted line
    return torch.randn(8, 256)

while True:
    time.sleep(float(sys.argv[1]))
    model(load()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def steps(hosts: Apart) -> list[int]:
    found = json.loads(hosts.fleet("status", "--format", "json", code=(0, 1, 3)))
    return [row["step"] for row in found["ranks"]]


def stacks(hosts: Apart) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hosts.fleet("stacks", "--format", "json", code=(0, 1, 3)))
    return found


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Apart]:
    pytest.importorskip("torch", reason="torch is not installed")
    with apart(tmp_path / "lab", 4) as made:
        made.lab.hosts("node1", "node2", "node3", "node4")
        (tmp_path / "lab" / "ddp.py").write_text(DDP)
        for number in range(1, 5):
            made.begin(number)
        for rank in range(8):
            made.on(rank // 2 + 1, [HERMES, "run", "--name", f"r{rank}", "--no-capture", "--", sys.executable, "ddp.py",
                                    str(STEP_S)],
                    RANK=str(rank), WORLD_SIZE="8", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500",
                    GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")  # fmt: skip
        until(lambda: len(steps(made)) == 8 and min(steps(made)) > 5, 400)
        yield made


def test_a_planted_hang_and_a_cut_link_are_named(job: Apart, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    assert (stacks(job)["findings"], stacks(job)["still"]) == ([], False)
    line = DDP.splitlines().index("        time.sleep(0.2)  # the planted line") + 1
    (folder / "hang-5").touch()
    begin = time.monotonic()
    found = until(lambda: (one := stacks(job))["findings"] and one, 10 * STEP_S)
    took = time.monotonic() - begin
    assert [(one["code"], one["where"]["ranks"]) for one in found["findings"]] == [("not entered", [5])]
    assert found["findings"][0]["where"]["lines"] == [f"ddp.py:{line} (load)"]
    # A backward pass waits where no Python is: what it waits in says the flight recorder.
    assert "rank 5 on node3 has not entered gloo:all_reduce, number " in found["answer"]["text"]
    assert {row["collective"] for row in found["ranks"] if row["rank"] != 5} == {"gloo:all_reduce"}
    assert took < 10 * STEP_S
    (folder / "hang-5").unlink()
    last = max(steps(job))
    until(lambda: min(steps(job)) > last, 60)

    # Nothing of the job comes through one link any more, while its host can be asked.
    net = ("nsenter", f"--net=/run/netns/{job.space(3)}", "iptables", "-A")
    for chain in ("INPUT", "OUTPUT"):
        subprocess.run([*net, chain, "-p", "tcp", "-m", "multiport", "!", "--ports", "22", "-j", "DROP"], check=True)
    found = until(lambda: (one := stacks(job))["findings"] and one, 20 * STEP_S)
    assert [one["code"] for one in found["findings"]] == ["link"]
    assert "no traffic passes the link of node3: connections to" in found["answer"]["text"]
    # Nor can the host be asked: the others name it.
    job.cut(3)
    found = json.loads(job.fleet("stacks", "--format", "json", "--within", "8", code=(1,)))
    assert "no traffic passes the link of node3" in found["answer"]["text"]
    assert [row["host"] for row in found["silent_hosts"]] == ["node3"]
