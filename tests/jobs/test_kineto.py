"""Profiles of jobs that were started without Hermes: against real torch where it is installed, and against a client
that speaks as libkineto does for what a real one cannot be made to do."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.base.say import say
from hermes.jobs.kineto_daemon import daemon as kineto
from hermes.jobs.kineto_daemon.asking_processes import ProcessFacts
from hermes.jobs.kineto_daemon.complete_trace import MarkedTrace, is_complete, write_completed
from hermes.jobs.kineto_daemon.daemon import Capture, Daemon, RankProgress, TraceRequest, begin, configuration, endpoint
from hermes.jobs.kineto_daemon.ipc import NAME, Question, encode

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
torch.manual_seed(0)
torch.set_num_threads(1)
ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    dist.init_process_group("gloo")
model = torch.nn.Linear(32, 8)
if ranks > 1:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    time.sleep(0.01)
    model(torch.ones(4, 32)).sum().backward()
    optimizer.step()
    if step == 2:
        open(f"{sys.argv[1]}-{os.getpid()}", "w").close()
"""
HERMES = "from hermes.cli import command; command()"


@pytest.fixture
def folder() -> Iterator[Path]:
    """For the socket: libkineto has room for short names only."""
    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as made:
        yield Path(made)


# With real torch.


def torch_version() -> str:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install --group torch")
    import torch

    return torch.__version__


def start(tmp_path: Path, folder: Path, *launcher: str, ranks: int = 1, often: bool = False) -> subprocess.Popen[bytes]:
    """A training that knows nothing of Hermes, once every rank has stepped; it asks each 5 seconds, or each second."""
    torch_version()
    (tmp_path / "train.py").write_text(TRAIN)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHONPATH"))}
    added = {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(folder), "KINETO_LOG_LEVEL": "99"}
    if often:
        (tmp_path / "kineto.conf").write_text("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n")
        added["KINETO_CONFIG"] = str(tmp_path / "kineto.conf")
    job = subprocess.Popen(
        [sys.executable, *launcher, "train.py", "stepped"], cwd=tmp_path, env=bare | added,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + PATIENCE_S
    while len(list(tmp_path.glob("stepped-*"))) < ranks:
        assert job.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    return job


def stop(job: subprocess.Popen[bytes], tmp_path: Path) -> None:
    for pid in [*(int(path.name.partition("-")[2]) for path in tmp_path.glob("stepped-*")), job.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.wait(PATIENCE_S)


def profile(tmp_path: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HERMES_CACHE_DIR": str(tmp_path / "cache")}
    command = ["profile", "--kineto-daemon", "--socket-dir", str(folder), "-o", str(tmp_path / "out"), *words]
    return subprocess.run(
        [sys.executable, "-c", HERMES, *command], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def steps_in(trace: Path) -> list[int]:
    names = [str(event.get("name")) for event in json.loads(trace.read_bytes())["traceEvents"]]
    return sorted(int(found[1]) for name in names if (found := re.fullmatch(r"ProfilerStep#(\d+)", name)))


@pytest.mark.slow
def test_a_job_without_hermes_is_profiled_for_exactly_the_steps_asked(tmp_path: Path, folder: Path) -> None:
    job = start(tmp_path, folder)
    try:
        number = next(tmp_path.glob("stepped-*")).name.partition("-")[2]
        done = profile(tmp_path, folder, number, "--steps", "3", "--level", "full")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        (trace,) = (tmp_path / "out").glob("manual_profiling_dump_*/rank0.pt.trace.json")
        assert sorted(path.name for path in trace.parent.iterdir()) == ["capture.json", trace.name]
        assert steps_in(trace) == [0, 1, 2]
        events = json.loads(trace.read_bytes())["traceEvents"]
        assert sum(str(event.get("name")).startswith("Optimizer.step#SGD") for event in events) == 3
        assert any(event.get("cat") == "python_function" for event in events)
        assert any("Input Dims" in event.get("args", {}) for event in events)
        told = json.loads((trace.parent / "capture.json").read_text())
        assert told["ranks"]["0"]["state"] == "finished"
        assert Path(f"{trace.parent}-report", "report.json").is_file()
        assert f"finding: {'the analysis failed'}" not in done.stdout
        assert list(folder.glob(NAME)) == []
        assert job.poll() is None
    finally:
        stop(job, tmp_path)


@pytest.mark.slow
def test_two_ranks_record_the_same_steps_and_their_launcher_none(tmp_path: Path, folder: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    job = start(tmp_path, folder, *launcher, ranks=2, often=True)
    try:
        # 400 steps of 10 ms: far more than lies between the moments at which the ranks hear of it.
        done = profile(tmp_path, folder, "--steps", "2", "--level", "light", "--every", "400")
        assert done.returncode == 0, done.stdout + done.stderr
        (out,) = (tmp_path / "out").glob("manual_profiling_dump_*[0-9]")
        assert sorted(path.name for path in out.iterdir()) == [
            "capture.json", "rank0.pt.trace.json", "rank1.pt.trace.json",
        ]  # fmt: skip
        assert "did not record the same steps" not in done.stdout
        assert [steps_in(out / f"rank{rank}.pt.trace.json") for rank in (0, 1)] == [[0, 1], [0, 1]]
        head = json.loads((out / "rank1.pt.trace.json").read_bytes())
        assert (head["distributedInfo"]["rank"], head["distributedInfo"]["world_size"]) == (1, 2)
    finally:
        stop(job, tmp_path)


# With a client that speaks as libkineto does.


class Client(threading.Thread):
    """Asks each fraction of a second, and writes what it is told to, as a real one would or as `behave` says."""

    def __init__(self, folder: Path, behave: Any) -> None:
        super().__init__(daemon=True)
        self._folder, self._behave = folder, behave
        self._over = threading.Event()
        self.told: list[str] = []

    def run(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.bind(str(self._folder / "dynoconfigclient01234567-89ab-4cde-8f01-23456789abcd"))
            own.settimeout(0.05)
            busy = False
            while not self._over.is_set():
                with contextlib.suppress(OSError):
                    own.sendto(encode(Question(pids=(os.getpid(),), busy=busy)), str(self._folder / NAME))
                    text = own.recv(4096)[40:].decode()
                    if text:
                        self.told.append(text)
                    busy = self._behave(text, busy)
                self._over.wait(0.02)

    def end(self) -> None:
        self._over.set()
        self.join()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes seconds takes a moment."""
    monkeypatch.setattr(kineto, "_FIND_S", 0.3)
    monkeypatch.setattr(kineto, "_SILENT_S", 0.5)
    monkeypatch.setattr(Daemon.find, "__defaults__", (0.3,))


def capture(folder: Path, out: Path, behave: Any, **changes: Any) -> tuple[Capture, list[tuple[str, str]], Client]:
    client = Client(folder, behave)
    client.start()
    made = endpoint(folder)
    told: list[tuple[str, str]] = []
    try:
        asked = TraceRequest(**({"steps": 2, "level": "light", "out": out, "largest_bytes": 10_000} | changes))
        found = begin(Daemon(made), asked, "", now_ns=10**18)
        found.hand_out()
        found.follow(lambda part: told.append((part.state, say(part.text or ""))), patience_s=5)
        found.drop_bystanders()
        return found, told, client
    finally:
        client.end()
        made.close()


def trace(*ends: float, begin: float = 100.0, base: int = 10**18) -> str:
    """A trace as libkineto writes it on demand: optimizer steps of one microsecond, ending at these microseconds."""
    steps = "".join(
        f'\n  {{\n    "ph": "X",\n    "cat": "user_annotation",\n    "name": "Optimizer.step#SGD.step",\n'
        f'    "pid": 7,\n    "tid": 8,\n    "ts": {end - 1:.3f},\n    "dur": 1.000\n    ,\n    "args": {{}}\n  }},'
        for end in ends
    )
    return (
        f' {{\n    "schemaVersion": 1,\n    "baseTimeNanoseconds": {base},\n    "traceEvents": [\n    {steps}\n'
        '  {\n    "ph": "i",\n    "s": "g",\n    "name": "Iteration Start: PyTorch Profiler",\n    "pid": "Traces",\n'
        f'    "tid": "x",\n    "ts": {begin:.3f}\n  }}\n  ],"traceName": "x" }}'
    )


def writer(text: str) -> Any:
    """Behaves well: is busy once asked, and then has written that text beside the name that it was given."""

    def behave(told: str, busy: bool) -> bool:
        if told:
            behave.target = Path(told.split("\n")[0].partition("=")[2])  # type: ignore[attr-defined]
            return True
        if busy:
            target = behave.target  # type: ignore[attr-defined]
            target.with_name(f"{target.stem}_{os.getpid()}.json").write_text(text)
        return False

    return behave


@pytest.mark.usefixtures("quick")
def test_what_is_written_is_marked_and_told(folder: Path, tmp_path: Path) -> None:
    found, told, client = capture(folder, tmp_path, writer(trace(110, 130)), start_step=40)
    assert [state for state, _ in told] == ["accepted", "finished"] or [state for state, _ in told][1] == "started"
    assert told[-1] == ("finished", "the trace holds 2 steps: rank0.pt.trace.json")
    assert steps_in(found.folder / "rank0.pt.trace.json") == [40, 41]
    assert [path.name for path in found.folder.iterdir()] == ["rank0.pt.trace.json"]
    assert list(found.doubts()) == []
    assert len(client.told) == 1
    assert "PROFILE_START_ITERATION=40\n" in client.told[0]
    found.write_manifest()
    assert json.loads((found.folder / "capture.json").read_text())["start_step"] == 40


@pytest.mark.usefixtures("quick")
def test_a_trace_without_a_step_is_kept_and_doubted(folder: Path, tmp_path: Path) -> None:
    found, told, _ = capture(folder, tmp_path, writer(trace()))
    assert told[-1] == ("finished", "the trace holds no steps: rank0.pt.trace.json")
    (doubt,) = found.doubts()
    assert doubt.identifier == "jobs.kineto.no_optimizer_step"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (trace(110).replace("traceEvents", "others"), "the trace cannot be read (it has no events)"),
        (trace(*range(110, 300)), ", more than the 10.0 kB allowed"),
    ],
)
def test_a_trace_that_is_none_or_too_large_is_not_kept(folder: Path, tmp_path: Path, text: str, why: str) -> None:
    found, told, _ = capture(folder, tmp_path, writer(text))
    assert told[-1][0] == "failed"
    assert why in told[-1][1]
    assert list(found.folder.glob("*.pt.trace.json")) == []


@pytest.mark.usefixtures("quick")
def test_one_that_records_and_never_writes_is_told(folder: Path, tmp_path: Path) -> None:
    state = {"left": 5}

    def silent(told: str, busy: bool) -> bool:
        state["left"] -= busy
        return bool(told) or (busy and state["left"] > 0)

    _, told, _ = capture(folder, tmp_path, silent)
    assert told[-1] == ("failed", "the process recorded, and wrote no trace")


@pytest.mark.usefixtures("quick")
def test_one_that_never_begins_is_waited_for_only_so_long(folder: Path, tmp_path: Path) -> None:
    _, told, _ = capture(folder, tmp_path, lambda _told, _busy: False)
    assert told[-1] == ("failed", "the process wrote nothing in 0 minutes")


def test_without_a_process_the_way_is_said(folder: Path, tmp_path: Path, quick: None) -> None:
    made = endpoint(folder)
    with pytest.raises(InputError, match="no process asks") as nobody:
        begin(Daemon(made), TraceRequest(steps=1, level="light", out=tmp_path), "", now_ns=1)
    assert "KINETO_USE_DAEMON=1" in say(nobody.value.hint)
    with pytest.raises(InputError, match="another daemon") as held:
        endpoint(folder)
    assert "--socket-dir" in say(held.value.hint)
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_library_without_the_words_is_refused_before_anything_is_asked(folder: Path, tmp_path: Path) -> None:
    client = Client(folder, lambda _told, _busy: False)
    client.start()
    made = endpoint(folder)
    daemon = Daemon(made)
    while not daemon.clients:
        daemon.serve(1)
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"ELF")
    known = daemon.clients[os.getpid()].facts
    daemon.clients[os.getpid()].facts = kineto.replace(known, torch="2.7.1", library=library)
    daemon.find = lambda patience_s=0: None  # type: ignore[method-assign,misc]
    with pytest.raises(InputError, match=r"\(torch 2\.7\.1\) does not know ACTIVITIES_LOG_FILE"):
        begin(daemon, TraceRequest(steps=1, level="light", out=tmp_path), "", now_ns=1)
    client.end()
    made.close()
    assert client.told == []


@pytest.mark.usefixtures("quick")
def test_a_disk_without_room_is_said_before_anything_is_asked(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="GB free"):
        capture(folder, tmp_path, lambda _told, _busy: False, largest_bytes=10**17)


def test_the_configuration_is_in_words_that_libkineto_knows() -> None:
    lines = configuration(
        TraceRequest(steps=3, level="full", out=Path("/o")), Path("/o/rank0.json"), several=True
    ).splitlines()
    assert lines == [
        "ACTIVITIES_LOG_FILE=/o/rank0.json", "PROFILE_START_ITERATION=0", "PROFILE_START_ITERATION_ROUNDUP=20",
        "ACTIVITIES_ITERATIONS=3", "ACTIVITIES_WARMUP_ITERATIONS=0", "PROFILE_REPORT_INPUT_SHAPES=true",
        "PROFILE_WITH_STACK=true",
    ]  # fmt: skip
    light = configuration(TraceRequest(steps=1, level="light", out=Path("/o")), Path("/o/rank0.json"), several=False)
    assert "ROUNDUP=1\n" in light
    assert "SHAPES=false\nPROFILE_WITH_STACK=false\n" in light
    stack = configuration(
        TraceRequest(steps=1, level="light", out=Path("/o"), stack=True), Path("/o/r.json"), several=False
    )
    assert "PROFILE_WITH_STACK=true\n" in stack


@pytest.mark.parametrize("path", ["/o\nACTIVITIES_ITERATIONS=9", "/o#", "/a=b", "/a,b"])
def test_a_path_that_would_be_read_as_something_else_is_refused(path: str) -> None:
    with pytest.raises(QueryError, match="cannot write to"):
        configuration(TraceRequest(steps=1, level="light", out=Path(path)), Path(path), several=False)


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="no level 'deep'"):
        configuration(TraceRequest(steps=1, level="deep", out=Path("/o")), Path("/o"), several=False)


def two(first_ns: int, second_ns: int, step_ns: int = 10_000_000, **asked: Any) -> Capture:
    """A capture of two ranks that began at these times."""
    of = ProcessFacts(pid=1, started=1, parent=1, command="", torch="2.13.0")
    made = Capture(
        None, TraceRequest(**({"steps": 1, "level": "light", "out": Path("/o")} | asked)), Path("/o"), {0: of, 1: of}
    )  # type: ignore[arg-type]
    for part, start_ns in zip(made.parts.values(), (first_ns, second_ns), strict=True):
        part.state, part.marked = "finished", MarkedTrace(starts_ns=(start_ns,), step_ns=step_ns)
    return made


def test_ranks_that_began_at_different_steps_are_asked_again_for_a_larger_multiple() -> None:
    assert two(0, 4_000_000).better() is None
    assert list(two(0, 4_000_000).doubts()) == []
    apart = two(0, 200_000_000)
    again = apart.better()
    assert again is not None
    assert again.every == 200
    (doubt,) = apart.doubts()
    assert (doubt["apart"], doubt["step"]) == (200 * 10**6, 10 * 10**6)
    # Once is enough, whoever said it; and nobody waits for minutes.
    assert two(0, 200_000_000, every=20).better() is None
    assert two(0, 200_000_000, start_step=70).better() is None
    assert two(0, 20 * 10**9, step_ns=10**9).better() is None


def test_configurations_go_out_after_the_longest_pause(folder: Path) -> None:
    made = endpoint(folder)
    daemon = Daemon(made)
    of = ProcessFacts(pid=1, started=1, parent=1, command="", torch="")
    for pid, asked_s in ((1, 0.2), (2, 14.9), (3, 11.0)):
        daemon.clients[pid] = kineto._Client(facts=of, over=(pid,), asked_s=asked_s)
    # At 0.2, 4.9 and 1.0 of 5 seconds: 3.9 seconds pass after the one at 1.0.
    assert daemon._last_before_the_longest_pause({1, 2, 3}) == 3
    assert daemon._last_before_the_longest_pause({2}) == 2
    made.close()


def test_traces_of_bystanders_go_when_others_have_steps(tmp_path: Path) -> None:
    made = two(0, 0)
    made.folder = tmp_path
    made.parts[1].marked = MarkedTrace(starts_ns=(), step_ns=0)
    (tmp_path / "rank1.pt.trace.json").touch()
    made.drop_bystanders()
    assert (list(made.parts), list(tmp_path.iterdir())) == ([0], [])


def test_marks_lie_between_the_ends_of_optimizer_steps(tmp_path: Path) -> None:
    (tmp_path / "raw.json").write_text(trace(110.5, 131.25))
    assert is_complete(tmp_path / "raw.json")
    target = tmp_path / "rank1.pt.trace.json"
    marked = write_completed(tmp_path / "raw.json", target, first=7, about={"rank": 1}, world=4)
    assert marked == MarkedTrace(starts_ns=(10**18 + 100_000, 10**18 + 110_500), step_ns=20_750)
    document = json.loads(target.read_bytes())
    assert (document["hermes"], document["distributedInfo"]) == ({"rank": 1}, {"rank": 1, "world_size": 4})
    marks = [event for event in document["traceEvents"] if event["name"].startswith("ProfilerStep")]
    assert [(mark["name"], mark["ts"], mark["dur"], mark["pid"], mark["tid"]) for mark in marks] == [
        ("ProfilerStep#7", 100.0, 10.5, 7, 8), ("ProfilerStep#8", 110.5, 20.75, 7, 8),
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("text", ["", "{", trace(110)[:-5], trace(110)[:200]])
def test_a_trace_that_is_still_written_is_not_whole(tmp_path: Path, text: str) -> None:
    (tmp_path / "raw.json").write_text(text)
    assert not is_complete(tmp_path / "raw.json")


def test_a_part_of_a_process_that_ended_is_gone(tmp_path: Path) -> None:
    made = two(0, 0)
    made.folder = tmp_path
    made._daemon = Daemon(None)  # type: ignore[arg-type]
    made._daemon.clients[1] = kineto._Client(facts=made.parts[0].facts, over=(1,))
    part = RankProgress(rank=5, facts=made.parts[0].facts, state="accepted")
    made._look(part)
    assert (part.state, part.text) == ("gone", None)
