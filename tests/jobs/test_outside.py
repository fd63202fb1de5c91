"""What watchers tell other programs: metrics, a textfile, webhooks; and what they keep of jobs that have ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.jobs.live_job import LiveJob
from tests.patience import PATIENCE_S, until

from hermes.base.errors import InputError
from hermes.base.message import Text
from hermes.base.say import say
from hermes.inside.wire import process
from hermes.inside.wire.recovery import save_and_remove
from hermes.inside.wire.rundir import JOB_FILE, enter
from hermes.jobs import metrics
from hermes.jobs.current_jobs import CurrentJobs
from hermes.jobs.detect.causes import Spent
from hermes.jobs.job_view import JobView, RankView, bandwidth_lines
from hermes.jobs.messages import JobState, no_progress
from hermes.jobs.overview import Overview, bandwidth_of
from hermes.jobs.prune import KeepLimits, prune
from hermes.jobs.webhook import Webhook

DAY_NS = 86_400 * 10**9
NO_STEP = no_progress(waited=20 * 10**9, last=7)


def view(name: str = "train-1-2") -> JobView:
    rank = RankView(
        rank=0, step=7, walls_ns=(10_000_000,) * 3, baseline_ns=9_000_000, samples_per_s=640.0, tokens_per_s=None,
        mfu=None, split=((Spent.DATA_WAIT, 2e6),), memory_bytes=5, bandwidth=bandwidth_of({"collectives": [
            {"kind": "all_reduce", "group": "0", "calls": 4, "bytes": 8_000_000, "ns": 4_000_000},
            {"kind": "junk", "group": "0", "calls": -1, "bytes": 1, "ns": 1}, 7]}),
    )  # fmt: skip
    return JobView(
        id=name, ranks=(rank,), said=("a line",), state=JobState.NO_PROGRESS, stalled=NO_STEP, alarms=2, slow=True
    )


def test_json_has_every_job_and_null_for_what_is_not_measured() -> None:
    found = json.loads(metrics.json_text([view()]))
    (job,) = found["jobs"]
    (rank,) = job["ranks"]
    assert (found["schema"], job["state"], job["alarms"], job["slow"]) == ("hermes.watch/1", "no progress", 2, True)
    assert (rank["step_ns"], rank["tokens_per_s"], rank["split_ns"]) == (10_000_000, None, {"data wait": 2_000_000})
    assert [(one["kind"], one["gb_per_s"]) for one in rank["bandwidth"]] == [("all_reduce", 2.0)]


def test_openmetrics_are_what_its_own_parser_reads() -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {one.name: one for one in parser.text_string_to_metric_families(metrics.openmetrics([view('a"b\\c\n')]))}
    (step,) = families["hermes_step_seconds"].samples
    assert (step.value, step.labels["rank"]) == (0.01, "0")
    states = {sample.labels["hermes_job_state"]: sample.value for sample in families["hermes_job_state"].samples}
    assert states == {"baseline": 0, "watching": 0, "at risk": 0, "no progress": 1}


def test_openmetrics_escape_names_and_leave_out_what_is_not_measured() -> None:
    text = metrics.openmetrics([view('a"b\\c\n')])
    assert text.endswith("# EOF\n")
    assert 'hermes_job_slow{job_name="a\\"b\\\\c "} 1.0\n' in text
    assert "hermes_tokens_per_second" not in text
    assert (
        'hermes_collective_bytes_per_second{group="0",job_name="a\\"b\\\\c ",kind="all_reduce",rank="0"} 2e+09' in text
    )


def test_the_textfile_is_replaced_whole_and_follows_no_link(tmp_path: Path) -> None:
    path = tmp_path / "hermes.prom"
    metrics.write_textfile(path, [view()])
    metrics.write_textfile(path, [view()])
    text = path.read_text()
    assert "# EOF" not in text
    assert "stateset" not in text
    assert "# TYPE hermes_job_alarms_total counter" in text
    assert [one.name for one in tmp_path.iterdir()] == ["hermes.prom"]
    victim = tmp_path / "victim"
    victim.write_text("kept")
    path.with_name(f".{path.name}.{os.getpid()}").symlink_to(victim)
    # Nobody can keep the file from being written either.
    metrics.write_textfile(path, [view(), view()])
    assert path.read_text() != text
    assert victim.read_text() == "kept"
    with pytest.raises(Exception, match="cannot be written"):
        metrics.write_textfile(tmp_path / "nowhere" / "hermes.prom", [view()])


class Receiver(BaseHTTPRequestHandler):
    """Takes events; what it answers is a setting of its server."""

    def do_POST(self) -> None:
        server: Server = self.server  # type: ignore[assignment]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.bodies.append(json.loads(body))
        self.send_response(server.answer)
        if server.answer == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(HTTPServer):
    """On this host only."""

    bodies: list[dict[str, object]]
    answer = 200


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Receiver)
    made.bodies = []
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.live
def test_alarms_of_a_job_reach_the_webhook_and_other_events_do_not(server: Server, live_job: LiveJob) -> None:
    hook = Webhook(f"http://127.0.0.1:{server.server_port}/hook", plain=False, say=live_job.said.append)
    seen = Overview(
        live_job.environment,
        name="",
        preset="robust",
        capture=False,
        peak_flops=None,
        say=lambda _: None,
        noted=hook.put,
    )
    live_job.steps([10.0, 10.1] * 100)
    seen.look()
    live_job.steps([20.0] * 20)
    seen.look()
    live_job.steps([10.0, 10.1] * 100)
    seen.look()
    hook.put("train-1-2", {"kind": "thresholds"})
    hook.close()
    seen.close()
    assert [(body["job"], body["kind"]) for body in server.bodies] == [
        ("train-1-2", "alarm"),
        ("train-1-2", "recovered"),
    ]
    assert server.bodies[0]["since"] == 201
    assert (hook.sent, hook.dropped, live_job.said) == (2, 0, [])


@pytest.mark.live
@pytest.mark.parametrize("answer", [302, 500])
def test_a_webhook_that_refuses_is_said_once_and_not_followed(server: Server, answer: int) -> None:
    server.answer = answer
    said: list[Text] = []
    hook = Webhook(f"http://localhost:{server.server_port}", plain=False, say=said.append)
    for _ in range(3):
        hook.put("train", {"kind": "alarm"})
    hook.close()
    assert (hook.sent, hook.dropped) == (0, 3)
    assert list(map(say, said)) == [f"the webhook did not accept an event (OSError: HTTP {answer})"]


@pytest.mark.live
def test_a_webhook_that_answers_nothing_keeps_nobody_waiting() -> None:
    import socket

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        hook = Webhook(f"http://127.0.0.1:{deaf.getsockname()[1]}/", plain=False, say=lambda _: None)
        start = time.monotonic()
        for _ in range(200):
            hook.put("train", {"kind": "alarm"})
        assert time.monotonic() - start < 1
        assert hook.dropped >= 200 - 66


@pytest.mark.parametrize(
    "address", ["http://example.org/x", "ftp://localhost/", "https://u:p@example.org/", "https://", "x"]
)
def test_an_address_that_is_none_or_in_the_clear_is_refused(address: str) -> None:
    with pytest.raises(InputError):
        Webhook(address, plain=False, say=lambda _: None)


def old_job(root: Path, name: str, *, days: float, megabytes: int = 0) -> Path:
    folder = root / name
    folder.mkdir(parents=True, mode=0o700)
    facts = {"job": name, "created_ns": 1, "command": ["x"], "owner": [1, 1], "space": 0,
             "segment": f"/dev/shm/hermes-{os.geteuid()}/{name}-1-1-{'0' * 12}"}  # fmt: skip
    (folder / JOB_FILE).write_text(json.dumps(facts))
    (folder / "steps-rank0.log").write_bytes(b"\0" * (megabytes * 10**6))
    at = time.time_ns() - int(days * DAY_NS)
    for path in (*folder.iterdir(), folder):
        os.utime(path, ns=(at, at))
    return folder


def test_run_directories_go_by_age_and_the_oldest_first_by_size(tmp_path: Path) -> None:
    for name, days, size in (("new", 0.01, 9), ("a", 1, 3), ("b", 2, 3), ("c", 3, 3), ("old", 40, 0)):
        old_job(tmp_path, name, days=days, megabytes=size)
    (tmp_path / "mine").mkdir()
    environment = {"HERMES_RUN_DIR": str(tmp_path), "HERMES_KEEP_GB": "0.015"}
    assert prune(environment, time.time_ns()) == ["b", "c", "old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "mine", "new"]


@pytest.mark.live
def test_a_run_removes_what_is_kept_no_longer(tmp_path: Path) -> None:
    old_job(tmp_path / "jobs", "old", days=40)
    (tmp_path / "shm").mkdir()
    own = {"HERMES_RUN_DIR": str(tmp_path / "jobs"), "HERMES_SHM_DIR": str(tmp_path / "shm")}
    script = "from hermes.cli import command; command()"
    done = subprocess.run(
        [sys.executable, "-c", script, "run", "--name", "new", "--", sys.executable, "-c", ""], env=os.environ | own,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # It is done beside the job, which is over at once.
    until(lambda: len(list((tmp_path / "jobs").iterdir())) == 1, PATIENCE_S)
    (kept,) = (tmp_path / "jobs").iterdir()
    assert kept.name.startswith("new-")


def test_a_running_job_is_never_removed(live_job: LiveJob) -> None:
    os.utime(live_job.job.folder / JOB_FILE, ns=(1, 1))
    assert prune(live_job.environment | {"HERMES_KEEP_DAYS": "0"}, time.time_ns() + 400 * DAY_NS) == []


def test_a_setting_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="HERMES_KEEP_DAYS"):
        KeepLimits.of({"HERMES_KEEP_DAYS": "soon"})


def test_jobs_that_ended_are_read_once_and_new_ones_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shm").mkdir()
    root = tmp_path / "jobs"
    for number in range(30):
        old_job(root, f"old-{number}", days=1)
    environment = {"HERMES_SHM_DIR": str(tmp_path / "shm"), "HERMES_RUN_DIR": str(root)}
    current = CurrentJobs()
    assert current.jobs(root) == []
    reads: list[Path] = []
    from hermes.jobs import current_jobs as module

    real = module.read
    monkeypatch.setattr(module, "read", lambda folder: reads.append(folder) or real(folder))
    assert current.jobs(root) == []
    assert reads == []
    job = enter(root, "train-1-2", command=("x",), owner=process.own_identity(), environment=environment)
    assert [one.id for one in current.jobs(root)] == ["train-1-2"]
    assert [folder.name for folder in reads] == ["train-1-2"]
    save_and_remove(job)


def test_bandwidth_is_a_line_a_kind() -> None:
    assert list(map(say, bandwidth_lines(view()))) == ["all_reduce, group 0: 2 GB/s, 2.00 MB a call"]
