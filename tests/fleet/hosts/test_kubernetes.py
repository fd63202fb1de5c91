"""The real kubectl lists pods and runs Hermes in them, against as much of an API server as it needs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.hosts.api_server import Cluster, served
from tests.fleet.hosts.test_hosts_apart import LOOP
from tests.jobs.live_job import a_job
from tests.patience import until
from tests.skips import NO_KUBECTL

from hermes.fleet.hosts.kubernetes import kubernetes

HERMES = Path(sys.executable).with_name("hermes")
pytestmark = [pytest.mark.live, pytest.mark.skipif(shutil.which("kubectl") is None, reason=NO_KUBECTL)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two pods with a rank each, one where Hermes fails, and one that does not run yet."""
    with a_job(tmp_path / "a", 0) as first, a_job(tmp_path / "b", 1) as second:
        for job in (first, second):
            job.steps([10.0] * 40)
        broken = {"HERMES_RUN_DIR": str(tmp_path / "none"), "PYTHONHOME": "/nothing"}
        yield Cluster(
            {"train-0": first.environment, "train-1": second.environment, "broken": broken}, {"new": "Pending"}
        )


def fleet(cluster: Cluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    with served(cluster, folder) as config:
        environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(folder)}
        return subprocess.run(
            [HERMES, "fleet", *words, "--hermes", str(HERMES)], env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip


def test_pods_are_one_picture_and_those_without_an_answer_are_named(cluster: Cluster, tmp_path: Path) -> None:
    done = fleet(cluster, tmp_path, "status", "--kubernetes", "app=train", "--format", "json", "--within", "90")
    found = json.loads(done.stdout)
    assert {(row["host"], row["rank"], row["step"]) for row in found["ranks"]} == {
        ("train-0", 0, 40),
        ("train-1", 1, 40),
    }
    silent = {row["host"]: row["silence"] for row in found["silent_hosts"]}
    assert silent == {"broken": "failed", "new": "Pending"}
    assert "app=train" in cluster.selectors
    assert [str(HERMES), "watch", "--once", "--format", "json"] in cluster.words


def test_the_stacks_of_ranks_in_pods_name_their_lines(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    pods: dict[str, dict[str, str]] = {}
    ranks: list[subprocess.Popen[bytes]] = []
    for rank in range(2):
        own = tmp_path / f"pod{rank}"
        own.mkdir()
        pods[f"train-{rank}"] = {"HERMES_RUN_DIR": str(own / "jobs"), "HERMES_SHM_DIR": str(own / "shm")}
        environment = {**os.environ, **pods[f"train-{rank}"], "RANK": str(rank), "WORLD_SIZE": "2"}
        words = [HERMES, "run", "--no-capture", "--", sys.executable, "loop.py"]
        ranks.append(subprocess.Popen(words, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL))

    def stood() -> list[dict[str, Any]]:
        done = fleet(Cluster(pods, {}), tmp_path, "stacks", "--kubernetes", "app=train", "--format", "json")
        found: list[dict[str, Any]] = json.loads(done.stdout or "{}").get("ranks", [])
        return found if [row["line"] for row in found if row["line"]] and len(found) == len(ranks) else []

    try:
        found = until(stood, 200)
    finally:
        for one in ranks:
            one.kill()
            one.wait()
    assert sorted((row["rank"], row["host"]) for row in found) == [(0, "train-0"), (1, "train-1")]
    assert all("loop.py" in row["line"] for row in found), found


def test_a_program_in_a_pod_reads_what_it_is_given(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = os.urandom(200_000)

    async def ran() -> tuple[int, bytes, bytes]:
        return await (await kubernetes("app=train")).run("train-0", ["sha256sum"], 4096, given)

    with served(cluster, tmp_path) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        code, out, _ = asyncio.run(ran())
    assert (code, out.split()[0].decode()) == (0, hashlib.sha256(given).hexdigest())


@pytest.mark.parametrize("selector", ["--all-namespaces", "--server=http://127.0.0.1:1", "$(id)"])
def test_a_selector_is_never_an_option(cluster: Cluster, tmp_path: Path, selector: str) -> None:
    done = fleet(cluster, tmp_path, "status", f"--kubernetes={selector}", "--format", "json", "--within", "90")
    assert cluster.selectors in ([], [selector])
    assert done.returncode in (1, 2, 3)


def test_no_pod_is_said(tmp_path: Path) -> None:
    done = fleet(Cluster({}, {"new": "Pending"}), tmp_path, "status", "--kubernetes", "app=train")
    assert (done.returncode, "no pod with these labels runs" in done.stderr) == (2, True)
