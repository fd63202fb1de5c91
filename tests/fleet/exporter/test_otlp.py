"""Metrics pushed over HTTP and gRPC reach a collector that decodes them; in the clear they leave only if told."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from tests.jobs.live_job import LiveJob
from tests.patience import until

from hermes.base.errors import HermesError, InputError
from hermes.fleet.exporter import otlp
from hermes.fleet.exporter.exporter import Exporter
from hermes.fleet.exporter.otlp import Push, parsed

Requests = list[Any]


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest()
        request.ParseFromString(body)
        self.server.requests.append((self.path, request))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def over_http() -> Iterator[tuple[str, Requests]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    server.requests = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", server.requests  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def over_grpc() -> Iterator[tuple[str, Requests]]:
    requests: Requests = []

    class Service(MetricsServiceServicer):  # type: ignore[misc]
        def Export(self, request: Any, context: object) -> Any:  # noqa: N802 - the name of the call
            requests.append(("", request))
            return ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}", requests
    server.stop(0).wait()


def numbers(requests: Requests) -> dict[tuple[str, str], tuple[float, str]]:
    """Name and rank of each point, with its number and unit."""
    found = {}
    for _, request in requests:
        for metric in request.resource_metrics[0].scope_metrics[0].metrics:
            data = metric.gauge if metric.WhichOneof("data") == "gauge" else metric.sum
            for point in data.data_points:
                labels = {one.key: one.value.string_value for one in point.attributes}
                found[metric.name, labels.get("rank", "")] = (point.as_double, metric.unit)
    return found


@pytest.mark.live
@pytest.mark.parametrize("transport", ["over_http", "over_grpc"])
def test_a_collector_gets_what_is_served(
    live_job: LiveJob, exporter: Exporter, transport: str, request: pytest.FixtureRequest
) -> None:
    address, requests = request.getfixturevalue(transport)
    live_job.steps([10.0] * 40)
    exporter.look()
    push = Push(exporter, address, plain=False, period_s=0.2)
    until(lambda: requests)
    push.close()
    found = numbers(requests)
    assert found["hermes_step_seconds", "0"] == (0.01, "s")
    assert found["hermes_job_alarms", ""] == (0.0, "")
    assert found["hermes_host_memory_bytes", ""][1] == "By"
    assert {path for path, _ in requests} == {"/v1/metrics" if transport == "over_http" else ""}


@pytest.mark.live
def test_a_collector_that_is_not_there_is_no_harm(exporter: Exporter, capfd: pytest.CaptureFixture[str]) -> None:
    push = Push(exporter, "http://127.0.0.1:9", plain=False, period_s=60.0)
    push.close()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "address",
    ["", "collector", "ftp://a:1", "http://", "http://a:99999", "http://user:secret@127.0.0.1:4318", "grpc:///x",
     "http://collector:4318", "grpc://10.0.0.1:4317"],
)  # fmt: skip
def test_what_is_no_collector_or_is_in_the_clear_is_refused(address: str) -> None:
    with pytest.raises(InputError):
        parsed(address, plain=False)


def test_encrypted_or_allowed_addresses_of_others_are_taken() -> None:
    taken = [("https://collector:4318", False), ("grpcs://10.0.0.1:4317", False), ("http://collector:4318", True),
             ("grpc://[::1]:4317", False)]  # fmt: skip
    assert [parsed(address, plain=plain).hostname for address, plain in taken] == [
        "collector", "10.0.0.1", "collector", "::1",
    ]  # fmt: skip


def test_libraries_that_are_absent_are_told(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_installed", lambda name: False)
    with pytest.raises(HermesError):
        Push(exporter, "http://127.0.0.1:4318", plain=False, period_s=1.0)
