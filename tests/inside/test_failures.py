"""Whatever is wrong around it, capture turns itself off with one line, and the loop goes on to its end."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.inside.conftest import Place
from tests.inside.test_monitor import loop
from tests.patience import until
from tests.skips import bound_by_modes

from hermes.inside.wire.rundir import running

pytestmark = pytest.mark.live

DONE = "print('done')"


def survives(place: Place, script: str, line: str, **environment: str) -> None:
    done = place.python(script, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    (only,) = done.stderr.splitlines()
    assert only.startswith("hermes: ")
    assert line in only


def test_a_run_directory_below_a_file(place: Place) -> None:
    (place.folder / "file").write_text("")
    survives(place, loop(10, end=DONE), "cannot be made", HERMES_RUN_DIR=str(place.folder / "file" / "jobs"))


def test_a_run_directory_that_cannot_be_written(place: Place) -> None:
    (place.folder / "jobs").mkdir(mode=0o500)
    with bound_by_modes():
        survives(place, loop(10, end=DONE), "cannot be made")


def test_a_memory_file_system_without_room(place: Place) -> None:
    script = (
        "import os\n    def full(*_): raise OSError(28, 'No space left on device')\n    os.posix_fallocate = full\n"
    )
    survives(place, "\n    " + script + loop(10, end=DONE), "no room")


def test_a_disk_that_fills_up_ends_the_log_and_not_the_monitor(place: Place) -> None:
    body = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096 + 1100 * 256,) * 2) if number == 5 else None"
    )
    survives(place, loop(2000, body, end=DONE), "the step log ends here")


def test_a_job_that_is_gone(place: Place) -> None:
    survives(place, loop(10, end=DONE), "cannot be read", HERMES_JOB=str(place.folder / "absent"))


@pytest.mark.parametrize("junk", [b"", b"junk", bytes(100_000)])
def test_a_segment_that_is_none(place: Place, junk: bytes) -> None:
    job = _made(place)
    segment = next(place.memory.iterdir())
    segment.write_bytes(junk)
    survives(place, loop(10, end=DONE), str(segment), HERMES_JOB=str(job))


def test_a_segment_that_others_may_write(place: Place) -> None:
    job = _made(place)
    next(place.memory.iterdir()).chmod(0o666)
    survives(place, loop(10, end=DONE), "open to other users", HERMES_JOB=str(job))


def test_a_segment_that_somebody_scribbles_over_while_the_job_runs(place: Place) -> None:
    process = place.begin(loop(3000, "time.sleep(0.001)", end=DONE))
    (job,) = until(lambda: [job for job in place.jobs() if running(job)])
    dice = random.Random(7)
    with job.segment.open("r+b") as file:
        for _ in range(300):
            file.seek(dice.randrange(4096, 12_000))
            file.write(dice.randbytes(64))
            file.seek(4096)
            file.write(dice.randbytes(16))
            file.flush()
            time.sleep(0.002)
    out, err = process.communicate()
    assert (process.returncode, out) == (0, "done\n")
    assert err in ("", "hermes: captures are off: the control segment is damaged\n")


def test_files_that_vanish_under_a_running_job(place: Place) -> None:
    process = place.begin(loop(1500, "time.sleep(0.001)", end=DONE))
    (job,) = until(lambda: [job for job in place.jobs() if running(job)])
    for path in (*place.memory.iterdir(), *job.folder.iterdir()):
        path.unlink()
    job.folder.rmdir()
    out, err = process.communicate()
    assert (process.returncode, out) == (0, "done\n")
    assert len(err.splitlines()) <= 1


def test_a_closed_stderr_and_a_bug_of_our_own(place: Place) -> None:
    script = "\n    import hermes.inside.monitor.at_step_end as m\n    m._time_ns = lambda: 1 / 0\n" + loop(
        10, end=DONE
    )
    survives(place, script, "ZeroDivisionError")
    assert place.python("import sys\nsys.stderr = None\n" + _flat(script)).returncode == 0


def _flat(script: str) -> str:
    import textwrap

    return textwrap.dedent(script)


def _made(place: Place) -> Path:
    """A job whose segment is there and that nobody is in."""
    from hermes.inside.wire.process import own_identity
    from hermes.inside.wire.rundir import enter

    return enter(place.root, "made", command=(), owner=own_identity(), environment=place.environment).folder
