"""What `hermes run` says of the steps of the job beside it."""

from __future__ import annotations

from pathlib import Path

from hermes.inside.launch.companion import NO_STEP_S, Steps
from hermes.inside.warn_once import OFF
from hermes.inside.wire import process
from hermes.inside.wire.control import NO_STEP, Control
from hermes.inside.wire.recovery import save_and_remove
from hermes.inside.wire.rundir import enter

ANEW = "no rank trains any more since 120 s, and the command goes on"


def test_a_first_step_that_comes_late_and_a_restart_that_comes_to_none_are_said(tmp_path: Path) -> None:
    environment = {"HERMES_SHM_DIR": str(tmp_path)}
    job = enter(tmp_path / "jobs", "train-1-1", command=("a",), owner=process.own_identity(), environment=environment)
    said: list[str] = []
    clock = [0.0]
    watched = Control.attach(job.segment)
    steps = Steps(watched, said.append, lambda: clock[0])

    def look(seconds: float) -> list[str]:
        clock[0] += seconds
        before = len(said)
        steps.look()
        steps.look()
        return said[before:]

    assert look(NO_STEP_S - 1) == []
    assert look(2) == [NO_STEP]
    control = Control.attach(job.segment)
    control.claim(0, "each step() of the optimizer SGD")
    assert look(1) == ["a step is each step() of the optimizer SGD"]
    assert look(10 * NO_STEP_S) == []
    # Its ranks end, and those that are started in their place come to no step.
    control.close()
    assert look(NO_STEP_S - 1) == []
    (text,) = look(2)
    assert text.startswith(ANEW)
    assert look(10 * NO_STEP_S) == []
    # Then they do, and it happens again.
    control = Control.attach(job.segment)
    control.claim(0, "each step() of the optimizer SGD")
    assert look(10 * NO_STEP_S) == []
    control.close()
    assert [text.startswith(ANEW) for text in look(NO_STEP_S + 1)] == [True]
    # A job that has ended is not stuck.
    clock[0] += 10 * NO_STEP_S
    steps.look(over=True)
    assert len(said) == 4
    watched.close()
    save_and_remove(job)


def test_a_job_that_ended_without_a_step_is_told_what_to_write(tmp_path: Path) -> None:
    said: list[str] = []
    Steps(None, said.append, lambda: 0.0).look(over=True)
    assert said == [NO_STEP]


def test_a_process_that_cannot_be_watched_is_no_loop_without_steps(tmp_path: Path) -> None:
    environment = {"HERMES_SHM_DIR": str(tmp_path)}
    job = enter(tmp_path / "jobs", "train-1-2", command=("a",), owner=process.own_identity(), environment=environment)
    said: list[str] = []
    (job.folder / OFF).write_text("capture is off: Python 3.7 is too old")
    watched = Control.attach(job.segment)
    Steps(watched, said.append, lambda: 0.0).look(over=True)
    watched.close()
    save_and_remove(job)
    assert said == []


def test_of_a_rank_whose_capture_is_off_no_step_is_said_and_of_the_others_it_is(tmp_path: Path) -> None:
    environment = {"HERMES_SHM_DIR": str(tmp_path)}
    job = enter(tmp_path / "jobs", "train-1-3", command=("a",), owner=process.own_identity(), environment=environment)
    said: list[str] = []
    clock = [0.0]
    watched = Control.attach(job.segment)
    steps = Steps(watched, said.append, lambda: clock[0])
    ranks = [Control.attach(job.segment) for _ in range(2)]
    ranks[0].claim(0, "each step() of the optimizer SGD")
    ranks[0].count_no_more()
    (job.folder / OFF).write_text("capture is off: no room")
    steps.look()
    assert said == []
    ranks[1].claim(1, "each step() of the optimizer Adam")
    steps.look()
    steps.look()
    assert said == ["a step is each step() of the optimizer Adam"]
    # Nor is it said that nobody trains: those that are not watched may.
    for rank in ranks:
        rank.close()
    clock[0] += 10 * NO_STEP_S
    steps.look()
    steps.look(over=True)
    watched.close()
    save_and_remove(job)
    assert len(said) == 1
