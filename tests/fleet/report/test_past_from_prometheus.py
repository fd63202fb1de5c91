"""The same page from a Prometheus: a real one that scrapes exporters, and one that says whatever it likes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.fleet.exporter.test_prometheus import get, hosts, scraping, train
from tests.fleet.report.drawn import DAY, S
from tests.jobs.live_job import LiveJob
from tests.patience import until

from hermes.base.errors import HermesError
from hermes.base.say import say
from hermes.fleet.exporter.exporter import Exporter
from hermes.fleet.exporter.serve import Server
from hermes.fleet.report.report import by_prometheus
from hermes.report.document_html import document_html
from hermes.report.document_json import document_values

pytestmark = pytest.mark.live

__all__ = ["hosts"]
HERMES = Path(sys.executable).with_name("hermes")
NOON = 20_000 * 86_400 + 43_200
EVIL = "<script>alert(1)</script>\x1b[2J"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus on the PATH")
def test_a_real_prometheus_tells_steps_and_the_slowdown_of_one_job_on_four_hosts(
    tmp_path: Path, hosts: list[tuple[LiveJob, Exporter, Server]]
) -> None:
    targets = [f"127.0.0.1:{server.port}" for _, _, server in hosts]
    with scraping(tmp_path, targets) as port:
        until(lambda: get(port, "/api/v1/status/config"), 60)

        def known(query: str) -> float:
            found = get(port, f"/api/v1/query?query={query}")["data"]["result"]
            return float(found[0]["value"][1]) if found else 0.0

        for turn in range(1, 6):
            train(hosts, {}, {})
            until(lambda turn=turn: known("min(hermes_step)") == 40 * turn, 60)

        def slower() -> bool:
            train(hosts, dict.fromkeys(range(len(hosts)), 20.0), {})
            return known("sum(hermes_job_slow)") == len(hosts)

        until(slower, 60)
        time.sleep(3)
        words = [HERMES, "fleet", "report", "--prometheus", f"http://127.0.0.1:{port}", "--since", "5m"]
        done = subprocess.run([*words, "--format", "json"], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert {(row["job"], tuple(row["hosts"]), row["ranks"]) for row in told["days"]} == {
        ("slurm-7", tuple(sorted(targets)), len(hosts))
    }
    assert sum(row["steps"] for row in told["days"]) >= 160
    assert [row["p99_ns"] for row in told["days"]] == [None] * len(told["days"])
    # On a busy machine exporters may notice it one after the other.
    assert {host for row in told["alarms"] for host in row["hosts"]} == {*targets}
    assert all(row["what"] == "slower" for row in told["alarms"])
    assert sum(row["lost_ns"] or 0 for row in told["alarms"]) > 0


@pytest.fixture
def canned() -> Iterator[tuple[str, dict[str, Any]]]:
    """A server that answers a question whose text holds a key with that value, and any other with nothing."""
    told: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is told."""

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            result = next((value for key, value in told.items() if key in query), [])
            body = result if isinstance(result, bytes) else json.dumps({"data": {"result": result}}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", told
    server.shutdown()
    thread.join()
    server.server_close()


def line(values: list[tuple[int, float]], **labels: str) -> dict[str, Any]:
    return {"metric": {"instance": "node1:9464", "job_name": "train-1-2", **labels},
            "values": [[at, str(value)] for at, value in values]}  # fmt: skip


def week(address: str) -> dict[str, Any]:
    return document_values(by_prometheus(address, (NOON - 3_600) * S, (NOON + DAY // S) * S, 20))


def test_points_become_days_alarms_stragglers_and_captures(canned: tuple[str, dict[str, Any]]) -> None:
    address, told = canned
    every = -(-(3_600 + 86_400) // 2_000)
    at = [NOON + every * place for place in range(100)]
    told["== 1"] = [line([(one, 1) for one in at[20:40]])]
    told["no progress"] = []
    told["how"] = [line([(one, float(place >= 30)) for place, one in enumerate(at)], how="auto")]
    told["> 0.1)"] = [line([(one, 0.5) for one in at[50:60]], rank="3")]
    told["(hermes_step)"] = [line([(one, 10 * place) for place, one in enumerate(at)])]
    told["baseline"] = [line([(one, 2.0) for one in at])]
    told["hermes_step_seconds"] = [line([(one, 4.0 if 20 <= place < 40 else 2.0) for place, one in enumerate(at)])]
    told = week(address)
    assert (told["days"][0]["steps"], told["days"][0]["p99_ns"]) == (990, None)
    assert told["days"][0]["typical_ns"] == pytest.approx(2 * S, rel=0.01)
    assert [(row["lost_ns"], row["over"]) for row in told["alarms"]][-1] == (20 * every * S // 2, True)
    (late,) = told["stragglers"]
    assert (late["rank"], late["waited_ns"]) == (3, 10 * every * S // 2)
    assert [(row["how"], row["report"]) for row in told["captures"]] == [("auto", None)]


def test_numbers_and_names_of_strangers_are_bounded(canned: tuple[str, dict[str, Any]]) -> None:
    address, told = canned
    told["last_over_time"] = []
    told["hermes"] = [
        line([(NOON, 1.0), (NOON + 50, 1e300), (NOON + 100, float("nan")), (NOON + 150, -7.0)], rank=rank,
             instance=EVIL * 20, job_name=EVIL, how=EVIL) for rank in ("0", "-1", "9" * 40, EVIL)
    ]  # fmt: skip
    document = by_prometheus(address, (NOON - 3_600) * S, (NOON + 3_600) * S, 20)
    page = document_html(document)
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "jobs" in document_values(document)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"data": {"result": [{"metric": {}}]}}'],
                         ids=range(5))  # fmt: skip
def test_what_is_no_answer_of_a_prometheus_is_refused(canned: tuple[str, dict[str, Any]], body: bytes) -> None:
    address, told = canned
    told["hermes"] = body
    with pytest.raises(HermesError):
        by_prometheus(address, NOON * S, (NOON + 60) * S, 10)


def test_an_empty_prometheus_says_that_nobody_trained(canned: tuple[str, dict[str, Any]]) -> None:
    assert "no job" in say(by_prometheus(canned[0], NOON * S, (NOON + 60) * S, 10).answer)
