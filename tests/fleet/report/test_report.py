"""A week on one page: what was lost, to what and who, from the logs and events of jobs, whoever wrote them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.report.drawn import DAY, MS, S, drawn_job

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.fleet.report.report import by_folders
from hermes.inside.wire.rundir import Job
from hermes.jobs.detect.read_step_logs import read_steps
from hermes.jobs.events import EVENTS, WATCHER, event, note
from hermes.jobs.messages import no_progress, progress
from hermes.model.document import Document
from hermes.report.document_html import document_html
from hermes.report.document_json import document_values

HERMES = Path(sys.executable).with_name("hermes")
MONDAY = 20_000 * DAY
"""A day of 2024."""
WEEK = (MONDAY, MONDAY + 7 * DAY)


def even(count: int, wall: float = 10.0) -> list[float]:
    """Steps that differ by a hundredth from each other."""
    return [wall * (1 + (at % 3 - 1) / 100) for at in range(count)]


def report(root: Path) -> Document:
    return by_folders([root], {}, *WEEK)


def rows(document: Document, key: str) -> list[dict[str, Any]]:
    found = document_values(document)[key]
    assert isinstance(found, list)
    return found


def noted(job: Job, at_ns: int, kind: str, message: Any, **facts: object) -> None:
    """What a watcher noted at that time."""
    (job.folder / WATCHER).touch()
    note(job, {**event(kind, message, **facts), "time_ns": at_ns})


def test_days_tell_steps_and_what_was_lost_and_the_answer_names_who(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    drawn_job(root, "even-1-1", MONDAY + S, even(400))
    # The second day begins in the middle of the slow steps.
    walls = [*even(300), *even(100, 30.0), *even(300)]
    drawn_job(root, "slow-1-1", MONDAY + DAY - 4 * S - 500 * MS, walls, host="node7", ranks=2)
    document = report(root)
    slow = [row for row in rows(document, "days") if row["job"] == "slow-1-1"]
    assert [(row["day"], row["ranks"], row["hosts"]) for row in slow] == [
        ("2024-10-04", 2, ["node7"]), ("2024-10-05", 2, ["node7"])
    ]  # fmt: skip
    assert sum(row["steps"] for row in slow) == 700
    assert slow[0]["typical_ns"] == pytest.approx(10 * MS, rel=0.02)
    assert slow[0]["p99_ns"] == pytest.approx(30 * MS, rel=0.02)
    (alarm,) = rows(document, "alarms")
    assert (alarm["host"], alarm["job"], alarm["over"]) == ("node7", "slow-1-1", True)
    assert alarm["lost_ns"] == pytest.approx(100 * 20 * MS, rel=0.05)
    assert sum(row["lost_ns"] for row in slow) == alarm["lost_ns"]
    assert all(row["lost_ns"] > 100 * MS for row in slow)
    said = say(document.answer)
    assert "2 jobs lost" in said
    assert "node7" in said
    assert document.facts["lost_ns"] == alarm["lost_ns"]


def test_what_lies_before_the_week_does_not_count(tmp_path: Path) -> None:
    walls = [*even(300), *even(100, 30.0), *even(300)]
    drawn_job(tmp_path / "jobs", "slow-1-1", MONDAY - 8 * S, walls)
    document = report(tmp_path / "jobs")
    assert rows(document, "alarms") == []
    assert "no alarm cost time" in say(document.answer)
    assert "no job" in say(by_folders([tmp_path / "jobs"], {}, MONDAY + DAY, MONDAY + 2 * DAY).answer)


def test_hosts_of_one_job_are_one_job_and_what_they_notice_together_is_lost_once(tmp_path: Path) -> None:
    walls = [*even(300), *even(100, 30.0), *even(300)]
    for number in (1, 2, 3):
        folder = tmp_path / f"copied{number}" / "jobs"
        drawn_job(folder, f"train-{number}-1", MONDAY + S, walls, host=f"node{number}", launch="slurm-7")
    # The same launcher's name at another time is another job.
    drawn_job(tmp_path / "later" / "jobs", "train-9-1", MONDAY + DAY, even(50), launch="slurm-7")
    folders = [tmp_path / name / "jobs" for name in ("copied1", "copied2", "copied3", "later")]
    document = by_folders(folders, {}, *WEEK)
    assert [(row["job"], row["steps"], row["hosts"]) for row in rows(document, "days")] == [
        ("slurm-7", 700, ["node1", "node2", "node3"]), ("train-9-1", 50, ["node1"])
    ]  # fmt: skip
    (alarm,) = rows(document, "alarms")
    assert alarm["hosts"] == ["node1", "node2", "node3"]
    assert document.facts["lost_ns"] == pytest.approx(100 * 20 * MS, rel=0.05)


def test_a_standstill_costs_its_time_and_stands_with_what_was_said(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    walls = [*even(100), 60_000.0, *even(100)]
    job = drawn_job(root, "still-1-1", MONDAY, walls)
    end = MONDAY + S
    noted(job, end + 20 * S, "no progress", no_progress(waited=20 * S, last=100, places=["x"]), step=100, ranks=[0])
    noted(job, end + 60 * S, "progress", progress(waited=60 * S), seconds=60.0)
    document = report(root)
    (stall,) = rows(document, "alarms")
    assert (stall["what"], stall["over"]) == ("stall", True)
    assert stall["lost_ns"] == pytest.approx(60 * S, rel=0.02)
    assert "step 100" in say(document.findings[0].message)


def test_stragglers_tell_how_long_the_others_waited(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    job = drawn_job(root, "late-1-1", MONDAY, even(300), ranks=2)
    noted(job, MONDAY + 2 * S, "straggler", "", since=100, step=160, ranks=[1], own_ns=8 * MS, others_ns=5 * MS)
    noted(job, MONDAY + 3 * S, "caught up", "", since=200, step=240, ranks=[1])
    document = report(root)
    (late,) = rows(document, "stragglers")
    assert (late["rank"], late["host"], late["own_ns"]) == (1, "node1", 8 * MS)
    assert late["waited_ns"] == pytest.approx(200 * 3 * MS, rel=0.03)
    assert "waited" in say(document.answer)


def test_a_job_that_still_is_slow_is_counted_until_its_last_step(tmp_path: Path) -> None:
    drawn_job(tmp_path / "jobs", "slow-1-1", MONDAY, [*even(300), *even(100, 30.0)])
    (alarm,) = rows(report(tmp_path / "jobs"), "alarms")
    assert alarm["over"] is False
    assert alarm["lost_ns"] == pytest.approx(100 * 20 * MS, rel=0.05)


EVIL = "<script>alert(1)</script>\x1b[2J"


def hostile(root: Path) -> None:
    """Run directories that a stranger filled."""
    job = drawn_job(root, "evil-1-1", MONDAY, even(100), host=EVIL, launch=EVIL)
    lines = [
        {"kind": "alarm", "time_ns": MONDAY + S, "rank": 0, "since": 50, "before_ns": 1 << 61, "change": "shift",
         "ranks": [0, "x", -1, 1 << 80], "message": {"text": EVIL}},
        {"kind": "alarm", "time_ns": "soon"}, {"kind": ["x"], "time_ns": 1 << 70}, {"kind": "recovered"},
        {"kind": "finding", "time_ns": MONDAY, "message": EVIL, "report": "/../../etc/passwd"},
        {"kind": "no progress", "time_ns": 1 << 61, "message": {"text": {}}, "ranks": 7, "step": -3},
        {"kind": "straggler", "time_ns": MONDAY + S, "ranks": [0], "own_ns": 1 << 61, "others_ns": 0, "since": 1},
        {"kind": "numbers", "time_ns": MONDAY + S, "rank": 0, "message": EVIL},
    ]  # fmt: skip
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (job.folder / WATCHER).touch()
    (job.folder / EVENTS).write_text("[" * 100_000 + "\n" + text + "{" + "x" * 100_000)
    capture = job.captures / "auto_profiling_dump_20241004-000001-000"
    capture.mkdir(parents=True)
    (capture / "capture.json").write_text(json.dumps({"ranks": EVIL, "start_step": 1 << 90, "steps": EVIL}))
    os.mkfifo(job.log_path(1))
    job.log_path(2).write_bytes(b"HERMLOG1" + b"\xff" * 9000)
    job.log_path(3).symlink_to("/dev/zero")
    for name, content in (("broken-1-1", "{"), ("other-1-1", json.dumps({"job": "x"})), ("deep-1-1", "[" * 90_000)):
        (root / name).mkdir()
        (root / name / "job.json").write_text(content)
    pipe = drawn_job(root, "pipe-1-1", MONDAY, even(10))
    os.mkfifo(pipe.folder / EVENTS)


def test_a_hostile_run_directory_costs_its_own_rows_and_is_shown_as_text(tmp_path: Path) -> None:
    root = tmp_path / "jobs"
    good = [*even(300), *even(100, 30.0), *even(300)]
    drawn_job(root, "good-1-1", MONDAY, good)
    alone = [row for row in rows(report(root), "days")]
    hostile(root)
    document = report(root)
    assert [row for row in rows(document, "days") if row["job"] == "good-1-1"] == alone
    assert [row["steps"] for row in rows(document, "days") if row["job"] == "pipe-1-1"] == [10]
    named = " ".join(one.where for one in document.coverage)
    assert all(name in named for name in ("broken-1-1", "other-1-1", "deep-1-1"))
    for language in ("en", "zh"):
        page = document_html(document, language)
        assert "<script>alert" not in page
        assert "\x1b" not in page
        assert "file:///" not in page, "a link that the stranger chose"
    assert document.facts["lost_ns"] < 3 * S  # type: ignore[operator]


def test_damaged_records_are_left_out_and_told(tmp_path: Path) -> None:
    job = drawn_job(tmp_path / "jobs", "bad-1-1", MONDAY, even(100))
    with job.log_path(0).open("r+b") as file:
        file.seek(4096 + 256 * 50 + 16)
        file.write(b"\xff" * 8)
    document = report(tmp_path / "jobs")
    assert [row["steps"] for row in rows(document, "days")] == [99]
    assert "1 record" in say(document.coverage[0].message)


@pytest.mark.live
def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        by_folders([tmp_path / "absent"], {}, *WEEK)
    for words in (["--since", "soon"], ["--since", "0d"], ["--prometheus", "http://127.0.0.1:1", str(tmp_path)]):
        done = subprocess.run([HERMES, "fleet", "report", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2, words


TRAIN = """
import time
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for number in range(400):
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    time.sleep(0.1 if 200 <= number < 320 else 0.01)
    optimizer.step()
"""


@pytest.mark.slow
def test_a_watched_job_is_told_with_its_alarm_its_capture_and_the_finding(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAIN)
    environment = {**os.environ, "HERMES_RUN_DIR": str(tmp_path / "jobs"), "OMP_NUM_THREADS": "1"}
    words = [HERMES, "run", "--", sys.executable, tmp_path / "train.py"]
    subprocess.run(words, env=environment, check=True, capture_output=True, timeout=240)
    words = [HERMES, "fleet", "report", "--since", "1h", "-o", tmp_path / "out", "--format", "json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (job,) = (tmp_path / "jobs").iterdir()
    events = [json.loads(line) for line in (job / EVENTS).read_text().splitlines()]
    alarm = next(one for one in events if one["kind"] == "alarm")
    worst = max(told["alarms"], key=lambda row: row["lost_ns"] or 0)
    # On a busy machine steps before step 200 may be slow too: then they are part of the row.
    (steps,) = read_steps(job)
    walls = steps.columns["wall_ns"][(steps.columns["step"] >= alarm["since"]) & (steps.columns["step"] <= 200)]
    assert len(walls) == 201 - alarm["since"] >= 1
    assert walls.min() > 1.15 * alarm["before_ns"]
    assert worst["lost_ns"] >= 110 * 80 * MS
    assert told["days"][0]["steps"] >= 398
    (capture,) = [row for row in told["captures"] if row["how"] == "auto"]
    assert Path(capture["report"]).read_text().startswith("<!doctype html>")
    assert capture["found"]["id"] == next(one for one in events if one["kind"] == "finding")["message"]["id"]
    page = (tmp_path / "out" / "fleet.html").read_text()
    assert f'href="{Path(capture["report"]).as_uri()}"' in page
    assert json.loads((tmp_path / "out" / "fleet.json").read_text())["alarms"] == told["alarms"]
