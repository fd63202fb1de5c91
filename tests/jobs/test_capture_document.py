"""What a program is told of captures of a job: where its ranks are, and nothing is ended that it did not mean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.jobs.live_job import LiveJob

pytestmark = pytest.mark.live

HERMES = Path(sys.executable).with_name("hermes")


def hermes(job: LiveJob, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **job.environment}
    return subprocess.run([HERMES, "profile", *words], env=environment, capture_output=True, text=True, check=False)


def test_where_the_ranks_are_is_one_document(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 30)
    found = json.loads(hermes(live_job, "--status", "--format", "json").stdout)
    (rank,) = found["ranks"]
    assert (found["schema"], found["job"], found["capture"]) == ("hermes.profile-status/1", live_job.job.id, None)
    assert (rank["rank"], rank["alive"], rank["step"], rank["step_ns"]) == (0, True, 30, 10_000_000)


def test_a_capture_that_nobody_takes_up_is_told_and_ended_by_its_step_alone(live_job: LiveJob) -> None:
    live_job.steps([10.0] * 30)
    done = hermes(live_job, "--start-step", "500", "--no-wait", "--format", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["schema"], found["start_step"]) == (3, "hermes.capture/1", 500)
    assert [(one["rank"], one["state"]) for one in found["ranks"]] == [(0, "none")]
    assert hermes(live_job, "--follow", "--start-step", "499", "--format", "json").returncode == 2
    (there,) = [live_job.control.request()]
    assert there is not None
    hermes(live_job, "--cancel", "--start-step", "499")
    (kept,) = [live_job.control.request()]
    assert kept is not None
    assert kept[1].action == "profile"
    hermes(live_job, "--cancel", "--start-step", "500")
    (ended,) = [live_job.control.request()]
    assert ended is not None
    assert ended[1].action == "cancel"
