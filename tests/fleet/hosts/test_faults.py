"""While four hosts capture a rank is killed, a link is cut, a disk is full: each is told, and costs no other host."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.hosts.apart import Apart, apart
from tests.fleet.hosts.lab import HERMES
from tests.fleet.hosts.test_hosts_apart import FAKETIME, status, steps
from tests.patience import until
from tests.skips import needs_root

from hermes.inside.wire.control import Control
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import read

pytestmark = [pytest.mark.live, needs_root, pytest.mark.slow]
TRAIN = """
import time
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
while True:
    time.sleep(0.2)
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FULL = 2


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Apart]:
    """Four ranks that do not wait for each other; the runs of one host are on a small disk."""
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path / "lab"
    disk = folder / f"node{FULL}" / "jobs"
    with apart(folder, 4) as made:
        (folder / "train.py").write_text(TRAIN)
        made.lab.hosts("node1", "node2", "node3", "node4")
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4g", "small", disk], check=True)
        try:
            for number in range(1, 5):
                ahead = number == 4 and Path(FAKETIME).exists()
                made.begin(number, more={"LD_PRELOAD": FAKETIME, "FAKETIME": "+3s"} if ahead else {})
                begin(made, number)
            until(lambda: len(steps(made)) == 4 and min(steps(made).values()) > 5, 300)
            yield made
        finally:
            made.close()
            subprocess.run(["umount", disk], check=False)


def living(hosts: Apart) -> dict[int, int]:
    """The steps of the ranks that live."""
    return {row["rank"]: row["step"] for row in status(hosts)["ranks"] if row["alive"]}


def begin(hosts: Apart, number: int) -> None:
    hosts.on(number, [HERMES, "run", "--name", "train", "--no-capture", "--", sys.executable, "train.py"],
             RANK=str(number - 1), WORLD_SIZE="4", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500",
             OMP_NUM_THREADS="1")  # fmt: skip


def profiling(hosts: Apart, *words: str) -> subprocess.Popen[str]:
    """A capture that goes on beside the test."""
    outside = ["nsenter", f"--net=/run/netns/{hosts.hub}"]
    where = ["--hosts", hosts.lab.folder / "hosts", "--ssh-config", hosts.lab.config, "--hermes", str(HERMES)]
    return subprocess.Popen([*outside, HERMES, "fleet", "profile", *words, *where, "--format", "json"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def inside(hosts: Apart, number: int, *words: str) -> str:
    """What a command of Hermes prints on a host; nothing where it fails."""
    enter = ["nsenter", f"--target={hosts.inits[number]}", "--net", "--uts", "--pid", "--mount"]
    environment = {**os.environ, **hosts.environment[number]}
    return subprocess.run([*enter, HERMES, *words], env=environment, capture_output=True, text=True, check=False).stdout


def recording(hosts: Apart, number: int) -> bool:
    """Whether the rank of a host is in the middle of a capture; it is looked at from outside, which takes no time."""
    folders = (hosts.lab.folder / f"node{number}" / "jobs").glob("*/job.json")
    for job in (read(path.parent) for path in folders):
        with (
            contextlib.suppress(LiveError, OSError),
            contextlib.closing(Control.attach(job.segment, job=job.id)) as own,
        ):
            if any(slot.alive and slot.state == "started" for slot in own.slots()):
                return True
    return False


def ended(child: subprocess.Popen[str]) -> dict[str, Any]:
    out, said = child.communicate(timeout=400)
    assert child.returncode == 3, (child.returncode, said)
    found: dict[str, Any] = json.loads(out)
    return found


def traces(found: dict[str, Any]) -> set[str]:
    """Hosts whose capture has a trace on their disk."""
    rows = {row["host"]: Path(row["folder"]) for row in found["captures"] if row["folder"]}
    return {host for host, folder in rows.items() if [*folder.rglob("*trace.json*")]}


def told(found: dict[str, Any]) -> str:
    """What could not be seen."""
    return json.dumps(found["coverage"])


def states(found: dict[str, Any]) -> dict[int, str]:
    return {row["rank"]: row["state"] for row in found["ranks"]}


def test_what_happens_to_one_host_in_the_middle_of_a_capture_is_told_and_costs_no_other(job: Apart) -> None:
    if Path(FAKETIME).exists():
        # An answer that takes longer than the clock is wrong says nothing of the clock.
        notes = until(lambda: [said] if "the clock of node4" in (said := told(status(job))) else [], 300)[0]
        assert "the clock of node4 is at least" in notes
        assert "ahead of the other hosts'" in notes

    # A rank is killed.
    child = profiling(job, "--steps", "40")
    until(lambda: recording(job, 2), 120)
    (pid,) = [row["pid"] for row in json.loads(inside(job, 2, "stacks", "--format", "json"))["ranks"]]
    job.on(2, ["kill", "-KILL", str(pid)])
    found = ended(child)
    assert states(found) == {0: "finished", 1: "gone", 2: "finished", 3: "finished"}
    assert traces(found) >= {"node1", "node3", "node4"}
    assert found["one_report"]
    assert "rank 1" in told(found)
    begin(job, 2)
    until(lambda: len(living(job)) == 4 and min(living(job).values()) > 5, 300)

    # A link is cut, and comes back: the trace is there all the same.
    child = profiling(job, "--steps", "30")
    until(lambda: recording(job, 3), 120)
    job.cut(3)
    found = ended(child)
    assert states(found) == {0: "finished", 1: "finished", 2: "silent", 3: "finished"}
    assert [row["host"] for row in found["silent_hosts"]] == ["node3"]
    assert traces(found) >= {"node1", "node2", "node4"}
    job.cut(3, "up")
    until(lambda: not recording(job, 3), 60)
    assert len([*(job.lab.folder / "node3").rglob("*trace.json*")]) == 2

    # A disk fills up in the middle.
    child = profiling(job, "--steps", "30")
    until(lambda: recording(job, FULL), 120)
    disk = job.lab.folder / f"node{FULL}" / "jobs"
    facts = os.statvfs(disk)
    used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    subprocess.run(["mount", "-o", f"remount,size={used}", disk], check=True)
    found = ended(child)
    assert {rank: state for rank, state in states(found).items() if rank != FULL - 1} == {
        0: "finished", 2: "finished", 3: "finished"
    }  # fmt: skip
    assert states(found)[FULL - 1] != "finished"
    assert found["one_report"]
    assert {row.get("host") for row in found["ranks"]} == {"node1", "node2", "node3", "node4"}
