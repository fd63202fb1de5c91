"""A served job: a small modelled one, its server on a port of its own, and clients that know its manners or do not."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from hermes.bundle.cache import Cache
from hermes.testing import Fault, Job, generate
from hermes.web.app import build
from hermes.web.guard import Keys
from hermes.web.server import Patient, bound, server
from hermes.web.study import Study


@dataclass
class Served:
    """A running server, and what it announced."""

    port: int
    keys: Keys
    study: Study
    announced: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def link(self, path: str = "/") -> str:
        return f"{self.base}{path}?token={self.keys.token}"


class Client:
    """Speaks HTTP as it is told to, with the key of a browser that followed a link."""

    def __init__(self, served: Served, *, key: bool = True) -> None:
        self.served = served
        self.cookie = ""
        if key:
            answer = self.get(f"/?token={served.keys.token}")
            self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in {**({"Cookie": self.cookie} if self.cookie else {}), **headers}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        got = connection.getresponse()
        answer = Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        connection.close()
        return answer

    def json(self, path: str) -> dict[str, object]:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return dict(json.loads(answer.body))

    def rows(self, query: str) -> list[dict[str, object]]:
        page = self.json(f"/api/rows?{query}")
        names = [column["name"] for column in page["columns"]]  # type: ignore[attr-defined]
        return [dict(zip(names, row, strict=True)) for row in page["rows"]]  # type: ignore[attr-defined]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def serving(
    paths: Sequence[Path], cache: Cache, protocol: type[Patient] = Patient, *, wait: bool = True
) -> Iterator[Served]:
    listening = bound_anywhere()
    port = listening.getsockname()[1]
    study = Study(paths, cache)
    announced: list[str] = []
    keys = Keys(announced.append)
    running = server(build(study, keys=keys, port=lambda: port), protocol)
    if wait:
        study.run()
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(port=port, keys=keys, study=study, announced=announced)
    finally:
        running.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


def bound_anywhere() -> socket.socket:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    return bound(free)


JOB = Job(ranks=3, steps=3, layers=1, faults=(Fault(kind="gc_pause", ranks=(2,)),))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("web-cache"))


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("web") / "job", JOB, formats=["ascend-text"])


@pytest.fixture(scope="session")
def served(job: Path, cache: Cache) -> Iterator[Served]:
    with serving([job], cache) as running:
        yield running


@pytest.fixture
def client(served: Served) -> Client:
    return Client(served)


@pytest.fixture
def stranger(served: Served) -> Client:
    return Client(served, key=False)


@pytest.fixture(scope="session")
def serve() -> Callable[..., object]:
    return serving
