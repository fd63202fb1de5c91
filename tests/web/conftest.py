"""A served job: a small modelled job, its server on a port of its own, and well-behaved and misbehaving clients."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp
from tests.patience import PATIENCE_S
from tests.web.visits import Visit
from uvicorn.server import ServerState

from hermes.store.cache import Cache
from hermes.web.access_guard import SessionKeys
from hermes.web.analysis_session import AnalysisSession
from hermes.web.page_server import build
from hermes.web.server import DEFAULT_PORT, PatientServer, bound, server
from hermes_testing import Fault, Job, generate


@dataclass
class Served:
    """A running server, how to connect to it, and the link that it printed."""

    port: int
    keys: SessionKeys
    study: AnalysisSession
    connect: Callable[[], socket.socket]
    announced: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def link(self, path: str = "/") -> str:
        return f"{self.base}{path}?token={self.keys.token}"


class Client:
    """An HTTP client with the key of a browser that followed a link; it sends exactly what a test asks for."""

    def __init__(self, served: Served, *, key: bool = True) -> None:
        self.served = served
        self.cookie = ""
        if key:
            answer = self.get(f"/?token={served.keys.token}")
            self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = self._connection()
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in {**({"Cookie": self.cookie} if self.cookie else {}), **headers}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        got = connection.getresponse()
        answer = Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        connection.close()
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.served.port)
        connection.sock = self.served.connect()
        connection.sock.settimeout(PATIENCE_S)
        return connection

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """Send a POST request as a script of Hermes' pages does, except for the given `headers`."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {"Origin": self.served.base, "Content-Type": "application/json", "Content-Length": str(len(data))}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in {**own, "Cookie": self.cookie, **given}.items() if value}
        connection = self._connection()
        connection.putrequest("POST", path, skip_host="Host" in sent, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(data)
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
    paths: Sequence[Path],
    cache: Cache,
    protocol: type[PatientServer] = PatientServer,
    *,
    wait: bool = True,
    **more: Any,
) -> Iterator[Served]:
    """Serve on a port of loopback, for browsers and for tests of the server itself."""
    listening = bound_anywhere()
    port = listening.getsockname()[1]
    app, keys, study, announced = _built(paths, cache, port, **more)
    running = server(app, protocol)
    if wait:
        study.run()
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(port, keys, study, lambda: socket.create_connection(("127.0.0.1", port)), announced)
    finally:
        running.should_exit = True
        thread.join(PATIENCE_S)
        listening.close()
        assert not thread.is_alive()
        _end_threads()


@contextmanager
def in_process(paths: Sequence[Path], cache: Cache, *, wait: bool = True, **more: Any) -> Iterator[Served]:
    """Serve without a port: each connection is a pair of sockets of this process, with the server's own protocol."""
    app, keys, study, announced = _built(paths, cache, DEFAULT_PORT, **more)
    config = server(app).config
    config.load()
    state = ServerState()
    loop = asyncio.new_event_loop()

    def connect() -> socket.socket:
        ours, theirs = socket.socketpair()
        made = loop.connect_accepted_socket(lambda: PatientServer(config, state, {}), theirs)
        asyncio.run_coroutine_threadsafe(made, loop).result(PATIENCE_S)
        return ours

    if wait:
        study.run()

    def run() -> None:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    # In a thread of its own: a test's thread may have the loop of a browser.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield Served(DEFAULT_PORT, keys, study, connect, announced)
    finally:
        asyncio.run_coroutine_threadsafe(_ended(state), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        _end_threads()


async def _ended(state: ServerState) -> None:
    """Close the connections that clients left open, and wait until their answers have ended."""
    for connection in list(state.connections):
        connection.shutdown()
    await asyncio.gather(*state.tasks, return_exceptions=True)


def _built(
    paths: Sequence[Path],
    cache: Cache,
    port: int,
    *,
    against: Sequence[Path] = (),
    source: Path | None = None,
    precision: tuple[Path, Path] | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[ASGIApp, SessionKeys, AnalysisSession, list[str]]:
    study = AnalysisSession(paths, cache)
    announced: list[str] = []
    keys = SessionKeys(announced.append)
    # Tests see no jobs but their own.
    where = environment or {"HERMES_RUN_DIR": str(cache.root / "no-jobs")}
    others = [AnalysisSession([path], cache) for path in against]
    app = build(study, keys=keys, port=lambda: port, against=others, environment=where, source=source,
                precision=precision)  # fmt: skip
    return app, keys, study, announced


def _end_threads() -> None:
    """Wait for the threads below which the interpreter would abort if it ended."""
    for behind in threading.enumerate():
        if behind.name in ("hermes-ahead", "hermes-whatif"):
            behind.join(PATIENCE_S)


def bound_anywhere() -> socket.socket:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    return bound(free)


RANK = """
import sys, time
from hermes.inside.wire import process
from hermes.inside.wire.control import Control, Slot
from hermes.inside.wire.step_record import FIELDS, NULL, pack
from hermes.inside.wire.recovery import open_ring
from hermes.inside.wire.rundir import enter
from pathlib import Path
import os
root, rank, name = Path(os.environ["HERMES_RUN_DIR"]), int(sys.argv[1]), sys.argv[2]
job = enter(root, name, command=("python", "<b>train</b>.py"), owner=process.own_identity(), environment=os.environ)
control = Control.attach(job.segment, job=job.id)
place, ring = control.claim(rank), open_ring(job, rank, {})
pid, started = process.own_identity()
def say(epoch, state, text=""):
    control.say(place, Slot(rank=rank, pid=pid, started=started, epoch=epoch, state=state, text=text))
known, done = 0, 0
for step in range(1, 10**6):
    wall = 20_000_000 if step < 300 else 40_000_000
    if step > 310:
        time.sleep(wall / 1e9)
    values = dict.fromkeys(FIELDS, NULL) | {
        "index": step, "step": step, "end_ns": time.time_ns(), "wall_ns": wall, "flags": 0, "samples": 64,
        "data_ns": wall // 2, "data_cpu_ns": 0, "save_ns": 0, "gc_ns": 0, "delay_ns": 0, "cpu_ns": wall // 4,
    }
    ring.add(pack(*[values[name] for name in FIELDS if name != "check"]))
    found = control.request()
    if found and found[0] != known:
        known, request = found
        say(known, "accepted" if request.action == "profile" else "cancelled")
    elif found and found[0] != done and found[1].action == "profile":
        request = found[1]
        if step == request.start_step:
            say(known, "started")
        if step >= request.start_step + request.steps:
            say(known, "finished", "12 kB")
            done = known
"""


@dataclass
class Training:
    """A job whose ranks step, slow down at step 300 and answer captures: processes that speak the real protocol."""

    environment: dict[str, str]
    name: str
    ranks: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self, count: int) -> None:
        whole = {**os.environ, **self.environment}
        for rank in range(count):
            self.ranks.append(subprocess.Popen([sys.executable, "-c", RANK, str(rank), self.name], env=whole))

    def end(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    memory = tmp_path / "shm"
    memory.mkdir()
    made = Training({"HERMES_SHM_DIR": str(memory), "HERMES_RUN_DIR": str(tmp_path / "jobs")}, "train-1-2")
    yield made
    made.end()


JOB = Job(ranks=3, steps=3, layers=1, faults=(Fault(kind="gc_pause", ranks=(2,)),))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("web-cache"))


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("web") / "job", JOB, formats=["ascend-text"])


@pytest.fixture(scope="session")
def cured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same job without its fault."""
    return generate(tmp_path_factory.mktemp("web") / "cured", replace(JOB, faults=()), formats=["ascend-text"])


@pytest.fixture(scope="session")
def served(job: Path, cured: Path, cache: Cache) -> Iterator[Served]:
    with serving([job], cache, against=[cured]) as running:
        yield running


@pytest.fixture(scope="session")
def local(job: Path, cured: Path, cache: Cache) -> Iterator[Served]:
    """The same pages as `served`, without a port."""
    with in_process([job], cache, against=[cured]) as running:
        yield running


@pytest.fixture
def client(local: Served) -> Client:
    return Client(local)


@pytest.fixture(scope="session")
def key() -> type[Client]:
    """Makes a client with a key of a served job."""
    return Client


@pytest.fixture
def stranger(local: Served) -> Client:
    return Client(local, key=False)


@pytest.fixture(scope="session")
def serve() -> Callable[..., object]:
    return serving


@pytest.fixture(scope="session")
def serve_here() -> Callable[..., object]:
    return in_process


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def begin(served: Any, **how: Any) -> Visit:
        visits.append(Visit(chromium, served, **how))
        return visits[-1]

    yield begin
    for each in visits:
        each.context.close()
