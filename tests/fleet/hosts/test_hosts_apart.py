"""Four hosts in namespaces of their own: one view, one capture at one step, and each thing that goes wrong is named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.hosts.apart import Apart, apart
from tests.fleet.hosts.lab import HERMES
from tests.patience import until
from tests.skips import needs_root

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
LOOP = """
import sys, time
import hermes.inside as watched
watched.start()
while True:
    time.sleep(0.02)
    watched.step()
"""
GLOO = """
import datetime, os, sys, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=90))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def reduce_gradients():
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)

step = 0
while True:
    model(torch.randn(8, 64)).sum().backward()
    time.sleep(0.05 if rank != 2 else 0.15)
    if os.path.exists(f"hang-{rank}"):
        time.sleep(600)  # the planted line
    reduce_gradients()
    optimizer.step()
    optimizer.zero_grad()
"""


def status(hosts: Apart, *words: str, code: tuple[int, ...] = (0, 1, 3)) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hosts.fleet("status", "--format", "json", *words, code=code))
    return found


def steps(hosts: Apart) -> dict[str, int]:
    return {row["host"]: row["step"] for row in status(hosts)["ranks"]}


def analyzed(*folders: str) -> str:
    """What `hermes analyze` says of these at one place."""
    words = [HERMES, "analyze", *sorted(folders), "--format", "json"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Apart]:
    with apart(tmp_path / "lab", 4) as made:
        made.lab.hosts("node1", "node2", "node3", "node4")
        for number in range(1, 5):
            # The clock of the last host is three seconds ahead.
            ahead = number == 4 and Path(FAKETIME).exists()
            wrong = {"LD_PRELOAD": FAKETIME, "FAKETIME": "+3s"} if ahead else {}
            made.begin(number, more=wrong)
        yield made


def test_plain_processes_are_one_picture_and_what_goes_wrong_with_a_host_is_named(four: Apart, tmp_path: Path) -> None:
    (tmp_path / "lab" / "loop.py").write_text(LOOP)
    for number in range(1, 5):
        four.on(number, [HERMES, "run", "--name", "loop", "--no-capture", "--", sys.executable, "loop.py"],
                RANK=str(number - 1), WORLD_SIZE="4", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500")  # fmt: skip
    until(lambda: len(steps(four)) == 4 and min(steps(four).values()) > 30, 60)
    found = status(four)
    assert {(row["host"], row["rank"], row["job"]) for row in found["ranks"]} == {
        (f"node{number}", number - 1, "10.77.0.1:29500") for number in range(1, 5)
    }
    # By the clock of the host itself no step is old, nor of a time to come.
    assert all(0 <= row["age_ns"] < 3e9 for row in found["ranks"])
    # A watcher of a busy host may see slow steps; nobody is waited for, and nothing stands still.
    assert found["silent"] == 0
    assert not {"no progress", "straggler"} & {one["code"] for one in found["findings"]}

    four.cut(3)
    found = status(four, "--within", "6")
    assert [(row["host"], row["silence"]) for row in found["silent_hosts"]] in (
        [("node3", "late")], [("node3", "unreachable")],
    )  # fmt: skip
    assert {row["host"] for row in found["ranks"]} == {"node1", "node2", "node4"}
    four.cut(3, "up")
    four.kill(2)
    found = status(four, "--within", "8")
    assert [row["host"] for row in found["silent_hosts"]] == ["node2"]
    assert {row["host"] for row in found["ranks"]} == {"node1", "node3", "node4"}


def test_a_gloo_job_is_watched_and_captured_at_one_step(four: Apart, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path / "lab"
    (folder / "gloo.py").write_text(GLOO)
    for number in range(1, 5):
        four.on(number, [HERMES, "run", "--collectives", "--no-capture", "--", sys.executable, "gloo.py"],
                RANK=str(number - 1), WORLD_SIZE="4", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500",
                GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")  # fmt: skip
    until(lambda: len(steps(four)) == 4 and min(steps(four).values()) > 40, 300)
    found = status(four)
    assert found["ranks"][0]["host"] == "node3"
    assert [(one["code"], one["where"]["ranks"]) for one in found["findings"] if one["code"] == "straggler"] == [
        ("straggler", [2])
    ]

    made = json.loads(four.fleet("profile", "--ranks", "worst,median,0-3", "--format", "json", "-o", tmp_path / "one"))
    assert (made["whole"], made["revoked"], len(made["ranks"])) == (True, False, 4)
    for row in made["captures"]:
        manifest = json.loads((Path(row["folder"]) / "capture.json").read_bytes())
        assert (manifest["start_step"], manifest["steps"]) == (made["start_step"], made["steps"])
        assert (Path(row["report"]) / "report.json").is_file()
    # What the hosts measured makes the report that their traces at one place make.
    assert made["one_report"]
    expected = json.loads(analyzed(*(row["folder"] for row in made["captures"])))
    assert json.loads((tmp_path / "one" / "report.json").read_bytes()) == expected
    assert made["answer"]["text"].endswith(expected["verdict"]["message"]["text"])

    traces = sorted(folder.glob("node*/jobs/*/captures/*/*trace*"))

    # A host is cut off: the ranks wait for it, take nothing up, and none is left half captured.
    four.cut(2)
    found = json.loads(four.fleet("profile", "--format", "json", "--within", "8", code=(3,)))
    assert (found["whole"], found["revoked"]) == (False, True)
    assert "node2" in {row["host"] for row in found["silent_hosts"]}
    four.cut(2, "up")
    begun = max(steps(four).values())
    until(lambda: len(steps(four)) == 4 and min(steps(four).values()) > max(found["start_step"], begun) + 5, 150)
    assert sorted(folder.glob("node*/jobs/*/captures/*/*trace*")) == traces
    assert len(traces) == 4

    # A rank goes elsewhere while the others enter the collective: it is named, with host and line.
    line = GLOO.splitlines().index("        time.sleep(600)  # the planted line") + 1
    (folder / "hang-1").touch()
    until(lambda: "no progress" in {one["code"] for one in status(four)["findings"]}, 150)
    found = json.loads(four.fleet("stacks", "--format", "json", code=(1,)))
    assert [(one["code"], one["where"]["ranks"]) for one in found["findings"]] == [("not entered", [1])]
    assert found["findings"][0]["where"]["lines"] == [f"gloo.py:{line} (<module>)"]
    assert {row["host"] for row in found["ranks"] if row["collective"] == "all_reduce"} == {"node1", "node3", "node4"}
