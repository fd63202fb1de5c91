"""A loop that says itself where its steps end leaves a log of them, whatever becomes of the loop."""

from __future__ import annotations

import json
import os
import signal

import pytest
from tests.inside.conftest import Column, Place
from tests.patience import until

from hermes.inside import agent
from hermes.inside.wire.control import Control
from hermes.inside.wire.recovery import clean, recover
from hermes.inside.wire.ring import LATE_NS
from hermes.inside.wire.rundir import Job, running
from hermes.inside.wire.step_record import FLAGS

pytestmark = pytest.mark.live

_LOOP = """
    import os, sys, time
    import hermes.inside as capture
    capture.start()
    for number in range({steps}):
        {body}
        capture.step({arguments})
    {end}
"""


def loop(steps: int, body: str = "pass", arguments: str = "", end: str = "pass") -> str:
    return _LOOP.format(steps=steps, body=body, arguments=arguments, end=end)


def test_each_step_after_the_first_is_a_record(place: Place, column: Column) -> None:
    done = place.python(loop(50, arguments="samples=32, tokens=4096, transfer_ns=7"))
    assert (done.returncode, done.stderr) == (0, "")
    (job,) = place.jobs()
    log = job.log_path(0)
    assert column(log, "step") == list(range(1, 50))
    assert set(column(log, "samples")) == {32}
    assert set(column(log, "tokens")) == {4096}
    assert set(column(log, "transfer_ns")) == {7}
    assert set(column(log, "data_ns")) == {None}
    flags = column(log, "flags")
    assert flags[0] == FLAGS["first"]
    assert set(flags[1:]) == {0}
    # A job that ended well leaves no shared memory behind.
    assert list(place.memory.iterdir()) == []


def test_wall_time_is_cpu_and_run_queue_and_being_blocked(place: Place, column: Column) -> None:
    # Counters are read at the end of each step of 50 ms or more.
    place.python(loop(11, "time.sleep(0.06)"))
    log = place.jobs()[0].log_path(0)
    wall, cpu = column(log, "wall_ns"), column(log, "cpu_ns")
    delay = column(log, "delay_ns")
    blocked = [a - b - c for a, b, c in zip(wall, cpu, delay, strict=True)]  # type: ignore[operator]
    # Clock and counters are read one after the other, and the thread may lose its CPU in between: sums are exact.
    assert 10 * 59e6 < sum(blocked) < 10 * 80e6
    assert 0 < sum(cpu) < 10 * 10e6  # type: ignore[arg-type]
    assert sum(column(log, "slices")) >= 9


def test_collections_are_timed(place: Place, column: Column) -> None:
    place.python(loop(10, "gc.collect() if number == 5 else None").replace("import os,", "import gc, os,"))
    log = place.jobs()[0].log_path(0)
    counts = dict(zip(column(log, "step"), column(log, "gc_count"), strict=True))
    times = dict(zip(column(log, "step"), column(log, "gc_ns"), strict=True))
    assert counts[5] == 1
    assert times[5] > 100_000  # type: ignore[operator]
    assert counts[6] == times[6] == 0


def test_a_jump_of_the_count_is_marked(place: Place, column: Column) -> None:
    place.python(loop(6, "capture.set_step(1000) if number == 3 else None"))
    log = place.jobs()[0].log_path(0)
    assert column(log, "step") == [1, 2, 1000, 1001, 1002]
    assert column(log, "flags")[2] == FLAGS["resumed"]


def test_checkpoints_and_evaluations_are_marked_by_name(place: Place, column: Column) -> None:
    place.python(loop(4, "capture.mark_checkpoint() if number == 2 else capture.mark_evaluation()"))
    log = place.jobs()[0].log_path(0)
    assert column(log, "flags")[1:] == [FLAGS["checkpoint"], FLAGS["evaluation"]]


def test_a_step_that_raises_does_not_count(place: Place, column: Column) -> None:
    script = """
        import contextlib
        import hermes.inside as capture
        capture.start()
        for number in range(4):
            with contextlib.suppress(KeyError), capture.training_step(samples=number):
                if number == 2:
                    raise KeyError
    """
    assert place.python(script).returncode == 0
    assert column(place.jobs()[0].log_path(0), "samples") == [1, 3]


def test_the_log_can_be_read_while_it_grows_and_the_job_is_found(place: Place, column: Column) -> None:
    process = place.begin(loop(2000, "time.sleep(0.003)"))
    try:
        (job,) = until(lambda: [job for job in place.jobs() if job.log_path(0).exists() and running(job)])
        first = until(lambda: column(job.log_path(0), "step"))
        more = until(lambda: [all_ for all_ in [column(job.log_path(0), "step")] if len(all_) > len(first)])[0]
        assert more[: len(first)] == first
    finally:
        process.kill()
        process.communicate()


def test_a_kill_loses_ten_milliseconds_at_most_and_the_next_run_is_clean(place: Place, column: Column) -> None:
    process = place.begin(loop(100_000, "print(number, flush=True); time.sleep(0.001)"))
    assert process.stdout
    told = [int(process.stdout.readline()) for _ in range(400)][-1]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    told = int(rest.split()[-1]) if rest.split() else told
    (job,) = place.jobs()
    assert recover(job) > 0
    # The number is printed before its step ends: it, and the one after it, may or may not have ended.
    records = column(job.log_path(0), "step")
    assert records == [*range(1, len(records) + 1)]
    assert told - 1 - LATE_NS // 1_000_000 <= len(records) <= told
    assert len(list(place.memory.iterdir())) == 2
    assert place.python(loop(3)).stderr == ""
    assert list(place.memory.iterdir()) == []
    assert clean(place.memory) == []


def test_two_jobs_that_start_in_the_same_second_are_two(place: Place, column: Column) -> None:
    both = [place.begin(loop(300, "time.sleep(0.002)")) for _ in range(2)]
    found = until(lambda: _two([job for job in place.jobs() if running(job)]))
    controls = [Control.attach(job.segment, job=job.id) for job in found]
    assert {control.slots()[0].pid for control in controls} == {process.pid for process in both}
    for process in both:
        assert process.communicate()[1] == ""
    assert [len(column(job.log_path(0), "step")) for job in found] == [299, 299]


def test_forked_children_that_do_not_train_change_nothing(place: Place, column: Column) -> None:
    script = loop(30, "os.waitpid(os.fork() or os._exit(0), 0) if number % 10 == 5 else None")
    done = place.python(script.replace("os.fork() or os._exit(0)", "(os.fork() or os._exit(0))"))
    assert done.stderr == ""
    assert column(place.jobs()[0].log_path(0), "step") == list(range(1, 30))


def test_a_forked_child_that_trains_is_a_job_of_its_own(place: Place) -> None:
    # The child inherits the count of the loop, not the place in the job.
    script = loop(20, "child = os.fork() if number == 10 else child", end="os.wait() if child else os._exit(0)")
    done = place.python(script.replace("for number", "child = 1\n    for number"))
    assert done.stderr == ""
    (job,) = place.jobs()[:1]
    assert len(place.jobs()) == 2
    assert json.loads((job.folder / "rank0.json").read_text())["rank"] == 0


def test_two_ranks_of_one_launcher_meet(place: Place, column: Column) -> None:
    ranks = [
        place.begin(loop(100, "time.sleep(0.002)"), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
        for rank in (0, 1)
    ]
    for process in ranks:
        assert process.communicate()[1] == ""
    (job,) = place.jobs()
    assert job.owner[0] == os.getpid()
    assert [len(column(job.log_path(rank), "step")) for rank in (0, 1)] == [99, 99]


def test_a_step_of_slurm_says_its_ranks_and_a_batch_script_is_one_process() -> None:
    def told(**environment: str) -> tuple[int, int, bool]:
        place = agent.where(environment, {})
        return place.rank, place.world, place.launched

    assert told(SLURM_PROCID="3", SLURM_STEP_NUM_TASKS="4") == (3, 4, True)
    assert told(SLURM_PROCID="0", SLURM_NTASKS="8") == (0, 1, False)
    assert told(SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="1", RANK="5", WORLD_SIZE="8") == (5, 8, True)


def _two(found: list[Job]) -> list[Job]:
    return found if len(found) == 2 else []
