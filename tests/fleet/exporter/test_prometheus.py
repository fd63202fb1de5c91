"""A real Prometheus with its Alertmanager: the alerts that are shipped fire for what is planted, and not before."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.jobs.live_job import LiveJob, a_job
from tests.patience import until

from hermes.fleet.exporter.address import read_address
from hermes.fleet.exporter.exporter import Exporter
from hermes.fleet.exporter.serve import Server, served

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "exporter"
MS = 10**6
HOSTS = 4
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("prometheus-alertmanager") is None,
        reason="no Prometheus on the PATH",
    ),
    pytest.mark.slow,
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def get(port: int, path: str) -> Any:
    with (
        contextlib.suppress(OSError, ValueError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as one,
    ):
        return json.load(one)
    return None


@contextlib.contextmanager
def running(*words: object) -> Iterator[None]:
    with subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            yield
        finally:
            started.kill()


@contextlib.contextmanager
def scraping(folder: Path, targets: Sequence[str]) -> Iterator[int]:
    """The port of a Prometheus that asks exporters every second."""
    port = free_port()
    scrape = {"job_name": "hermes", "static_configs": [{"targets": [*targets]}]}
    (folder / "p.yml").write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}))
    with running("prometheus", f"--config.file={folder}/p.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}"):  # fmt: skip
        yield port


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[tuple[LiveJob, Exporter, Server]]]:
    """Four exporters, each beside one rank of one job."""
    with contextlib.ExitStack() as closing:
        made = []
        for rank in range(HOSTS):
            about = {"world": HOSTS, "launch": "slurm-7"}
            job = closing.enter_context(a_job(tmp_path / f"host{rank}", rank, **about))
            exporter = Exporter(job.environment, root=Path("/"), users=(), peak_flops=None, commands=False,
                                say=lambda _: None, tool=lambda _: "")  # fmt: skip
            closing.callback(exporter.close)
            server = Server(read_address("127.0.0.1:0"), exporter, None)
            closing.callback(server.server_close)
            thread = served(server)
            closing.callback(thread.join)
            closing.callback(server.shutdown)
            made.append((job, exporter, server))
        yield made


@pytest.fixture
def alerts(
    tmp_path: Path, hosts: list[tuple[LiveJob, Exporter, Server]]
) -> Iterator[Callable[[], set[tuple[str, str]]]]:
    """What the Alertmanager holds: names of alerts, and which exporter each is of."""
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "for" in rule):
        rule["for"] = "2s"
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    prometheus, manager = free_port(), free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["alerts.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{manager}"]}]}]},
        "scrape_configs": [{"job_name": "hermes", "static_configs": [
            {"targets": [f"127.0.0.1:{server.port}" for _, _, server in hosts]}]}],
    }  # fmt: skip
    (tmp_path / "p.yml").write_text(yaml.safe_dump(config))
    (tmp_path / "am.yml").write_text(yaml.safe_dump({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}))
    numbers = {f"127.0.0.1:{server.port}": str(rank) for rank, (_, _, server) in enumerate(hosts)}

    def firing() -> set[tuple[str, str]]:
        found = get(manager, "/api/v2/alerts") or []
        return {(one["labels"]["alertname"], numbers[one["labels"]["instance"]]) for one in found}

    with running("prometheus", f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data",
                 f"--web.listen-address=127.0.0.1:{prometheus}"), \
         running("prometheus-alertmanager", f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am",
                 f"--web.listen-address=127.0.0.1:{manager}", "--cluster.listen-address="):  # fmt: skip
        until(lambda: get(manager, "/api/v2/status"))
        until(lambda: _up(prometheus) == HOSTS)
        yield firing


def _up(port: int) -> int:
    found = get(port, "/api/v1/query?query=count(hermes_exporter_info)")
    result = found["data"]["result"] if found else []
    return int(result[0]["value"][1]) if result else 0


def train(hosts: list[tuple[LiveJob, Exporter, Server]], walls: dict[int, float], own: dict[int, float]) -> None:
    """Each rank takes forty steps, waits for the others in what is not its own part, and its exporter looks."""
    for rank, (job, exporter, _) in enumerate(hosts):
        wall = walls.get(rank, 10.0)
        waits = int((1 - own.get(rank, 0.5)) * wall * MS)
        job.steps([wall, wall + 0.1] * 20, comm_ns=waits)
        exporter.look()


def test_alerts_fire_for_what_is_planted_and_not_before(
    hosts: list[tuple[LiveJob, Exporter, Server]], alerts: Callable[[], set[tuple[str, str]]]
) -> None:
    # The machine of the tests has interfaces of its own.
    def of_jobs() -> set[tuple[str, str]]:
        return {one for one in alerts() if one[0] in ("HermesStraggler", "HermesJobSlower", "HermesNoProgress")}

    def until_firing(expected: set[tuple[str, str]], walls: dict[int, float], own: dict[int, float]) -> None:
        def look() -> bool:
            train(hosts, walls, own)
            time.sleep(0.5)
            return of_jobs() == expected

        until(look)

    for _ in range(12):
        train(hosts, {}, {})
        time.sleep(0.5)
        assert of_jobs() == set()
    until_firing({("HermesStraggler", "2")}, {}, {2: 0.8})
    until_firing({("HermesStraggler", "2"), *{("HermesJobSlower", str(rank)) for rank in range(HOSTS)}},
                 dict.fromkeys(range(HOSTS), 20.0), {2: 0.8})  # fmt: skip
