"""What `hermes run` says of the steps of the job beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.inside.wire import process
from hermes.inside.wire.control import NO_STEP, Control
from hermes.inside.wire.rundir import enter
from hermes.jobs import launch


def test_a_first_step_that_comes_after_the_patience_is_said_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_NO_STEP_S", -1.0)
    environment = {"HERMES_SHM_DIR": str(tmp_path)}
    job = enter(tmp_path / "jobs", "train-1-1", command=("a",), owner=process.me(), environment=environment)
    said: list[str] = []
    beside = launch.Companion(job, None, said.append)
    beside.look()
    beside.look()
    assert said == [NO_STEP]
    control = Control.attach(job.segment)
    control.claim(0, "each step() of the optimizer SGD")
    beside.look()
    beside.look()
    assert said[1:] == ["a step is each step() of the optimizer SGD"]
    control.close()
    beside.end()
