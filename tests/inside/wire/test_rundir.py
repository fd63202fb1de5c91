"""Jobs find their ranks, never each other, and a crash leaves nothing behind for long."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.inside.wire import process
from hermes.inside.wire.control import Control
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.recovery import clean, open_ring, recover, save_and_remove
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, default_root, enter, jobs, read, shared_memory
from hermes.inside.wire.step_record import unpack
from hermes.inside.wire.steplog import LogWriter, last_index, read_rows

MakeJob = Callable[..., Job]
Record = Callable[[int], bytes]


def _enter(root: str, environment: dict[str, str], gate: object, found: object) -> None:
    gate.wait()  # type: ignore[attr-defined]
    job = enter(Path(root), "same", command=(), owner=process.own_identity(), environment=environment)
    found.put(str(job.segment))  # type: ignore[attr-defined]


@pytest.mark.live
def test_ranks_that_come_at_once_agree_on_one_segment(environment: dict[str, str]) -> None:
    context = multiprocessing.get_context("fork")
    gate, found = context.Barrier(8), context.Queue()
    arguments = (environment["HERMES_RUN_DIR"], environment, gate, found)
    ranks = [context.Process(target=_enter, args=arguments) for _ in range(8)]
    for rank in ranks:
        rank.start()
    segments = {found.get(timeout=30) for _ in ranks}
    for rank in ranks:
        rank.join()
    assert len(segments) == 1
    assert [str(path) for path in shared_memory(environment).iterdir()] == list(segments)


def test_two_jobs_have_nothing_in_common(make_job: MakeJob) -> None:
    first, second = make_job("train-1-2"), make_job("train-1-3")
    assert first.segment != second.segment
    with pytest.raises(LiveError, match="another job"):
        Control.attach(first.segment, job=second.id)
    assert [job.id for job in jobs(first.folder.parent)] == ["train-1-2", "train-1-3"]


@pytest.mark.live
def test_a_job_lives_as_long_as_its_owner_or_a_rank(make_job: MakeJob) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    owner = (sleeper.pid, process.start_time(sleeper.pid) or 0)
    job = make_job("train-1-2", owner)
    assert clean(job.segment.parent) == []
    Control.attach(job.segment).claim(0)
    sleeper.kill()
    sleeper.wait()
    assert clean(job.segment.parent) == []
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    _rewrite_owner(job, pid)
    assert clean(job.segment.parent) == []


@pytest.mark.live
def test_memory_of_a_dead_job_is_removed_and_its_records_are_saved_first(make_job: MakeJob, record: Record) -> None:
    job = make_job()
    child = os.fork()
    if child == 0:
        Control.attach(job.segment, job=job.id).claim(0)
        ring = open_ring(job, 0, {})
        log = LogWriter(job.log_path(0), {})
        for index in range(1, 8):
            ring.add(record(index))
        log.append(ring.since(0)[0][: 3 * 256])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    _rewrite_owner(job, child)
    assert last_index(job.log_path(0)) == 3
    assert clean(job.segment.parent) == [job.id]
    assert [row and row[0] for row in read_rows(job.log_path(0))] == [1, 2, 3, 4, 5, 6, 7]
    assert not job.segment.exists()
    assert list(job.segment.parent.iterdir()) == []
    assert clean(job.segment.parent) == []


@pytest.mark.live
def test_run_directories_of_jobs_that_have_ended_are_not_read(make_job: MakeJob) -> None:
    """Five thousand of them held a job for seconds before it began."""
    job = make_job()
    old = make_job("old-1-1")
    old.segment.unlink()
    _rewrite_owner(job, 1)
    script = """import sys; from pathlib import Path
from hermes.inside.wire.recovery import clean
sys.addaudithook(lambda event, args: print("opened", args[0]) if event in ("open", "os.scandir", "os.listdir") else 0)
print(clean(Path(sys.argv[1])))"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(job.segment.parent)], capture_output=True, text=True, check=True
    )
    assert f"['{job.id}']" in done.stdout
    assert f"opened {job.folder / 'job.json'}" in done.stdout or "opened job.json" in done.stdout
    assert str(old.folder) not in done.stdout
    assert f"opened {job.folder.parent}\n" not in done.stdout


@pytest.mark.live
def test_a_rank_that_comes_again_numbers_on_and_saves_what_its_forerunner_left(
    make_job: MakeJob, record: Record
) -> None:
    job = make_job()
    child = os.fork()
    if child == 0:
        open_ring(job, 2, {}).add(record(1))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    ring = open_ring(job, 2, {})
    assert ring.count == 1
    assert [path.name.rpartition(".")[2] for path in job.segment.parent.glob("*.2.*")] == [str(os.getpid())]
    ring.add(record(2))
    assert [row[0] for row in RingReader(ring.path).new()] == [2]
    assert recover(job) == 0


def _killed_after_a_record(job: Job, record: Record) -> None:
    child = os.fork()
    if child == 0:
        open_ring(job, 2, {}).add(record(1))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.live
def test_memory_is_removed_only_once_the_records_in_it_are_saved(make_job: MakeJob, record: Record) -> None:
    job = make_job()
    _killed_after_a_record(job, record)
    save_and_remove(job)
    assert [row and row[0] for row in read_rows(job.log_path(2))] == [1]
    assert list(job.segment.parent.iterdir()) == []


@pytest.mark.live
def test_memory_stays_while_another_process_writes_the_log(make_job: MakeJob, record: Record) -> None:
    job = make_job()
    _killed_after_a_record(job, record)
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        writer = LogWriter(job.log_path(2), {"rank": 2})
        os.write(ready[1], b".")
        os.read(done[0], 1)
        writer.close()
        os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(LogInUseError):
        save_and_remove(job)
    assert len(list(job.segment.parent.iterdir())) == 2
    os.write(done[1], b".")
    os.waitpid(child, 0)
    save_and_remove(job)
    assert [row and row[0] for row in read_rows(job.log_path(2))] == [1]
    assert list(job.segment.parent.iterdir()) == []


def test_a_log_that_was_torn_is_mended_and_goes_on(tmp_path: Path, record: Record) -> None:
    log = LogWriter(tmp_path / "log", {"rank": 3})
    log.append(record(1) + record(2))
    log.close()
    with (tmp_path / "log").open("ab") as file:
        file.write(record(3)[:100])
    assert last_index(tmp_path / "log") == 2
    log = LogWriter(tmp_path / "log", {})
    log.append(record(3))
    assert [row and row[0] for row in read_rows(tmp_path / "log")] == [1, 2, 3]


def test_a_damaged_record_in_the_middle_is_told_and_the_rest_is_read(tmp_path: Path, record: Record) -> None:
    LogWriter(tmp_path / "log", {}).append(record(1) + bytes(256) + record(3))
    rows = list(read_rows(tmp_path / "log"))
    assert [row and row[0] for row in rows] == [1, None, 3]
    assert unpack(bytes(256)) is None


def test_a_log_stays_within_its_bound(tmp_path: Path, record: Record) -> None:
    log = LogWriter(tmp_path / "log", {}, largest=4096 + 4 * 256)
    for index in range(1, 12):
        log.append(record(index))
    assert [row and row[0] for row in read_rows(tmp_path / "log")] == [9, 10, 11]
    assert [row and row[0] for row in read_rows(tmp_path / "log.1")] == [5, 6, 7, 8]


@pytest.mark.live
def test_a_log_has_one_writer(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log", {})
    child = os.fork()
    if child == 0:
        try:
            LogWriter(tmp_path / "log", {})
        except LiveError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    log.close()


def test_a_full_disk_takes_half_records_back(tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogWriter(tmp_path / "log", {})
    log.append(record(1))
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, raw: write(descriptor, raw[:100]))
    with pytest.raises(OSError, match="No space left"):
        log.append(record(2))
    monkeypatch.undo()
    assert (tmp_path / "log").stat().st_size == 4096 + 256


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"job": 1}', '{"job": "train-1-2", "segment": "/etc/passwd"}'])
def test_a_damaged_job_file_is_told(make_job: MakeJob, text: str) -> None:
    job = make_job()
    (job.folder / "job.json").write_text(text)
    with pytest.raises(LiveError, match=r"damaged|another job"):
        read(job.folder)
    assert list(jobs(job.folder.parent)) == []


def test_a_run_directory_that_cannot_be_made_is_told(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LiveError, match="cannot be made"):
        enter(tmp_path / "file" / "jobs", "a", command=(), owner=(1, 1), environment=environment)
    with pytest.raises(LiveError, match="no job id"):
        enter(tmp_path / "jobs", "../up", command=(), owner=(1, 1), environment=environment)


def test_run_directories_open_to_others_are_not_used(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs").chmod(0o777)
    with pytest.raises(LiveError, match="other users"):
        enter(tmp_path / "jobs", "a", command=(), owner=(1, 1), environment=environment)


def test_where_run_directories_are(tmp_path: Path) -> None:
    assert default_root({"HERMES_RUN_DIR": "/a"}) == Path("/a")
    assert default_root({"XDG_STATE_HOME": "/b"}) == Path("/b/hermes/jobs")
    assert default_root({"HOME": str(tmp_path)}) == tmp_path / ".local/state/hermes/jobs"
    assert default_root({}) == Path(f"/tmp/hermes-{os.geteuid()}")


def _rewrite_owner(job: Job, pid: int) -> None:
    """Make the job belong to a process that is gone."""
    file = job.folder / "job.json"
    raw = json.loads(file.read_text())
    raw["owner"] = [pid, 1]
    file.write_text(json.dumps(raw))
