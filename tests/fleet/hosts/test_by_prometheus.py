"""A Prometheus that scrapes the exporters gives the same picture as the hosts do, and a strange one gives none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.fleet.exporter.test_prometheus import hosts, scraping, train
from tests.jobs.live_job import LiveJob
from tests.patience import until

from hermes.base.errors import HermesError
from hermes.fleet.exporter.exporter import Exporter
from hermes.fleet.exporter.serve import Server
from hermes.fleet.job.status import document
from hermes.fleet.job.status_from_prometheus import ranks_from_prometheus

pytestmark = pytest.mark.live

__all__ = ["hosts"]
HERMES = Path(sys.executable).with_name("hermes")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus on the PATH")
def test_a_real_prometheus_names_the_straggler_and_the_exporter_that_is_down(
    tmp_path: Path, hosts: list[tuple[LiveJob, Exporter, Server]]
) -> None:
    targets = [f"127.0.0.1:{server.port}" for _, _, server in hosts]
    train(hosts, {}, {2: 0.9})
    with scraping(tmp_path, targets) as port:
        words = [HERMES, "fleet", "status", "--prometheus", f"http://127.0.0.1:{port}", "--format", "json"]

        def seen() -> dict[str, object]:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            found: dict[str, object] = json.loads(done.stdout or "{}")
            return found

        until(lambda: seen().get("ranks_seen") == len(hosts), 60)
        found = seen()
        ranks = found["ranks"]
        assert isinstance(ranks, list)
        assert {(row["host"], row["rank"], row["step"], row["job"]) for row in ranks} == {
            (target, rank, 40, "slurm-7") for rank, target in enumerate(targets)
        }
        assert ranks[0]["rank"] == 2
        # The steps of these tests ended in 1970: for a Prometheus the job stands still.
        assert "no progress" in json.dumps(found["findings"])
        hosts[1][2].shutdown()
        hosts[1][2].server_close()
        until(lambda: seen().get("silent") == 1, 60)
        assert [row["host"] for row in seen()["silent_hosts"]] == [targets[1]]  # type: ignore[attr-defined]


@pytest.fixture
def strange() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers whatever is asked with the first of these."""
    bodies = [b"{}"]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is told."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bodies[0])

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"data": {"result": [{"metric": {}, "value": [1]}]}}',
     b'{"data": {"result": [7]}}'],
    ids=range(6),
)  # fmt: skip
def test_what_is_no_answer_of_a_prometheus_is_refused(strange: tuple[str, list[bytes]], body: bytes) -> None:
    address, bodies = strange
    bodies[0] = body
    with pytest.raises(HermesError):
        ranks_from_prometheus(address, "", 10)


def test_numbers_and_names_of_strangers_are_bounded(strange: tuple[str, list[bytes]]) -> None:
    address, bodies = strange
    evil = "\x1b[2J" * 100
    metrics = ({"__name__": "hermes_step", "instance": evil, "job_name": evil, "rank": rank} for rank in
               ("0", "-1", "9" * 40, "x"))  # fmt: skip
    rows = [{"metric": one, "value": [1, value]} for one in metrics for value in ("1e300", "NaN", "7")]
    bodies[0] = json.dumps({"data": {"result": rows}}).encode()
    picture = ranks_from_prometheus(address, "", 10)
    assert [(row.rank, row.step) for row in picture.ranks] == [(0, 7)]
    assert len(picture.ranks[0].host) <= 120
    assert document(picture).facts["ranks_seen"] == 1


@pytest.mark.parametrize(
    "address", ["ftp://x", "http://", "http://u:p@127.0.0.1:1", "http://[", "http://127.0.0.1:1", "x"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(HermesError):
        ranks_from_prometheus(address, "", 2)


def test_hosts_and_a_prometheus_are_not_named_together(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("node1\n")
    words = [HERMES, "fleet", "status", "--prometheus", "http://127.0.0.1:1", "--hosts", tmp_path / "hosts"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "--prometheus and --hosts" in done.stderr) == (2, True)
