"""What collectives move, of two real ranks: by kind and group, DDP's own too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
import hermes.inside
hermes.inside.start(collectives=True)
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.set_num_threads(1)
group = dist.new_group([0, 1])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(13):
    optimizer.zero_grad()
    model(torch.ones(4, 256)).sum().backward()
    optimizer.step()
    dist.all_reduce(torch.ones(1000))
    dist.all_reduce(torch.ones(500), group=group)
    dist.all_gather([torch.empty(100), torch.empty(100)], torch.ones(100))
    dist.broadcast(torch.ones(10), src=0, async_op=True).wait()
dist.barrier()
import hermes.inside as inside
inside._agent.close()
time.sleep(0.5)
os._exit(0)
"""


def test_bytes_and_times_of_collectives_are_told_by_kind_and_group(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    environment = {
        "PYTHONPATH": str(ROOT / "src"), "HERMES_RUN_DIR": str(tmp_path / "jobs"), "PATH": "/usr/bin:/bin",
        "RANK": "0", "WORLD_SIZE": "2",
    }  # fmt: skip
    children = [
        subprocess.Popen([sys.executable, str(script), str(rank), str(tmp_path / "store")],
                         env=environment | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]  # fmt: skip
    errors = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors
    (path,) = (tmp_path / "jobs").rglob("comm-rank0.json")
    rows = {(row["kind"], row["group"]): row for row in json.loads(path.read_text())["collectives"]}
    plain = rows.pop(("all_reduce", "default"))
    assert plain["bytes"] == plain["calls"] * 4000
    assert plain["ns"] > 0
    (other,) = [row for (kind, _), row in rows.items() if kind == "all_reduce"]
    assert other["bytes"] == other["calls"] * 2000
    assert rows["all_gather", "default"]["bytes"] == rows["all_gather", "default"]["calls"] * 800
    # What returns before it is done is counted, and has no time.
    assert rows["broadcast", "default"]["ns"] == 0
    assert rows["broadcast", "default"]["bytes"] > 0
    ddp = rows["DDP all_reduce", "default"]
    assert ddp["bytes"] == ddp["calls"] * 4 * (256 * 256 + 256)
    assert ddp["ns"] > 0
