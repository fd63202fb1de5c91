"""Files of a run directory are opened as what a stranger may have put there, and jobs of others by descriptor."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.jobs.live_job import LiveJob
from tests.skips import needs_root

from hermes.base.errors import HermesError
from hermes.inside.agent import launch
from hermes.jobs import metrics
from hermes.jobs.captures_on_disk import count_captures
from hermes.jobs.overview import Overview
from hermes.jobs.run_directory_files import PinnedJob, content

NOBODY = 65_534


def look_at(live_job: LiveJob, *users: str) -> str:
    """The metrics that a watcher which only looks on tells."""
    seen = Overview(
        live_job.environment, name="", preset="robust", capture=False, peak_flops=None, say=live_job.said.append,
        acts=False, users=users,
    )  # fmt: skip
    try:
        return metrics.openmetrics(seen.look())
    finally:
        seen.close()


def test_a_link_a_pipe_and_a_large_file_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    found = {name: content(tmp_path / name, 4) for name in ("file", "link", "pipe", "absent")}
    assert found == {"file": b"1234", "link": None, "pipe": None, "absent": None}
    assert content(tmp_path / "file", 3) is None


def test_a_pipe_in_the_place_of_a_ranks_file_is_not_waited_for(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 30)
    for name in ("rank0.json", "comm-rank0.json", "thresholds.json", "numerics-rank0.jsonl"):
        os.mkfifo(live_job.job.folder / name)
    assert 'hermes_step{job_name="train-1-2",rank="0"} 30.0' in look_at(live_job)


def test_captures_are_counted_by_how_they_came_about(live_job: LiveJob) -> None:
    for name in ("auto_profiling_dump_1", "manual_profiling_dump_1", "manual_profiling_dump_2", "notes"):
        (live_job.job.captures / name).mkdir(parents=True)
    assert count_captures(live_job.job) == {"auto": 1, "manual": 2, "refused": 0}
    live_job.steps([10.0])
    assert 'hermes_job_captures_total{how="manual",job_name="train-1-2"} 2.0' in look_at(live_job)


def test_the_own_time_of_a_rank_is_told(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 30, cpu_ns=4_000_000, delay_ns=1_000_000, comm_ns=2_000_000, device_ns=9_000_000)
    text = look_at(live_job)
    told = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("hermes_step_"))
    labels = '{job_name="train-1-2",rank="0"}'
    names = ("hermes_step_own_seconds", "hermes_step_collective_seconds", "hermes_step_device_seconds")
    assert [float(told[name + labels]) for name in names] == [0.008, 0.002, 0.009]


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"SLURM_JOB_ID": "41", "MASTER_ADDR": "a"}, "slurm-41"),
        ({"TORCHELASTIC_RUN_ID": "r1", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}, "r1"),
        ({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}, "a:29500"),
        ({}, ""),
    ],
)
def test_a_job_has_the_same_name_on_all_of_its_hosts(environment: dict[str, str], name: str) -> None:
    assert launch(environment) == name


@pytest.fixture
def of_nobody(live_job: LiveJob, tmp_path: Path) -> LiveJob:
    """The job as another user's, whom root's policy lets this account see."""
    memory = tmp_path / "shm" / f"hermes-{NOBODY}"
    live_job.job.segment.parent.rename(memory)
    policy = {"operators": ["root"], "users": ["*"], "capture": False, "audit": str(tmp_path / "audit.jsonl")}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    (tmp_path / "policy.json").chmod(0o644)
    live_job.environment |= {"HERMES_POLICY": str(tmp_path / "policy.json"), "HERMES_RUN_DIR": str(tmp_path / "own")}
    for path in (memory, *memory.iterdir(), live_job.job.folder, *live_job.job.folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    return live_job


@needs_root
def test_a_job_of_another_user_is_shown_where_roots_policy_allows(of_nobody: LiveJob, tmp_path: Path) -> None:
    of_nobody.steps([10.0] * 30)
    assert 'hermes_step{job_name="65534:train-1-2",rank="0"} 30.0' in look_at(of_nobody, str(NOBODY))
    assert "train-1-2" not in look_at(of_nobody)
    assert [json.loads(line)["user"] for line in (tmp_path / "audit.jsonl").read_text().splitlines()] == ["nobody"]
    (tmp_path / "policy.json").unlink()
    with pytest.raises(HermesError):
        look_at(of_nobody, str(NOBODY))


@needs_root
def test_a_job_of_another_user_leads_to_no_folder_of_a_third(of_nobody: LiveJob, tmp_path: Path) -> None:
    of_nobody.steps([10.0] * 30)
    folder = of_nobody.job.folder
    folder.rename(tmp_path / "moved")
    (tmp_path / "victim").mkdir()
    folder.symlink_to(tmp_path / "victim")
    assert "train-1-2" not in look_at(of_nobody, str(NOBODY))
    folder.unlink()
    (tmp_path / "victim").rename(folder)
    assert "train-1-2" not in look_at(of_nobody, str(NOBODY))
    folder.rename(tmp_path / "victim")
    (tmp_path / "moved").rename(folder)


@needs_root
def test_a_pinned_folder_stays_the_one_that_it_was(of_nobody: LiveJob, tmp_path: Path) -> None:
    job = of_nobody.job.__class__(**{**vars(of_nobody.job), "segment": tmp_path / "shm" / f"hermes-{NOBODY}" / "x"})
    pinned = PinnedJob(job)
    job.folder.rename(tmp_path / "moved")
    try:
        assert (pinned.job.folder / "job.json").exists()
        with pytest.raises(OSError, match="No such file"):
            PinnedJob(job)
    finally:
        (tmp_path / "moved").rename(job.folder)
        pinned.close()
