"""What runs in the job runs on every Python that torch and torch_npu run on, and says so on one that is too old."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from tests.inside.conftest import Column, Place
from tests.patience import PATIENCE_S, until
from tests.skips import NO_OLD_PYTHON

from hermes.inside.wire.rundir import running
from hermes.jobs.request_capture import (
    CaptureWish,
    answers_of_ranks,
    is_finished,
    progress_of_ranks,
    request_capture_of_job,
)

pytestmark = pytest.mark.live

INSIDE = Path(__file__).resolve().parents[2] / "src" / "hermes" / "inside"
NEW = tuple(f"3.{minor}" for minor in range(8, 15))
OLD = ("2.7", "3.6", "3.7")

# All modules are loaded; what needs no framework is run.
_RUN = """
import json, os, pkgutil, importlib, sys, time
import hermes.inside as capture
for one in pkgutil.walk_packages(capture.__path__, "hermes.inside."):
    if ".launch" not in one.name:
        importlib.import_module(one.name)
from hermes.inside.record.journal import Journal
from hermes.inside.record.options import Options
from hermes.inside.record.tensor_files import TensorFiles
from hermes.inside.record.watch_numerics import Watch
from hermes.inside.snapshot_parts import Taking, generators
Taking("taken.zip", 0).write()
generators()
journal = Journal("recording", Options({"ring": 2}), "pytorch", "2.4", rank=0, world=1)
journal.open(); journal.begin("{}"); journal.write(["{}"]); journal.alarm(1, "nothing")
Watch().look([], [])
TensorFiles("recording", 10**9).end()
capture.start(collectives=True, transfers=True, device_events=True)
number = 0
while not os.path.exists("asked"):
    number += 1
    time.sleep(0.003)
    capture.step(samples=2)
capture.stop()
print(number)
"""


@cache
def interpreters() -> dict[str, str]:
    """Of each version an interpreter of this machine: of pyenv, or on the path."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in (*OLD, *NEW):
        places = [
            *sorted(home.glob(f"versions/{version}.*/bin/python")),
            *(Path(one) / f"python{version}" for one in os.environ.get("PATH", "").split(os.pathsep)),
        ]
        for place in places:
            if version not in found and place.is_file() and _answers(place, version):
                found[version] = str(place)
    return found


def _answers(place: Path, version: str) -> bool:
    told = subprocess.run(
        [place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() == version


def _here(versions: tuple[str, ...]) -> list[str]:
    """Those of these versions that this machine has: the tests' names say which were run."""
    return [version for version in versions if version in interpreters()]


@pytest.mark.parametrize("version", _here(NEW))
def test_a_job_on_this_python_is_watched_with_warnings_as_errors(place: Place, column: Column, version: str) -> None:
    process = subprocess.Popen(
        [interpreters()[version], "-W", "error", "-c", _RUN], env=place.environment, cwd=place.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        (job,) = until(lambda: [job for job in place.jobs() if running(job) and progress_of_ranks(job)], PATIENCE_S)
        asked = request_capture_of_job(
            job, CaptureWish(steps=2, level="light", options={}, largest_bytes=10**7), now_ns=time.time_ns()
        )
        until(lambda: [1] if is_finished(answers_of_ranks(asked)) else [], PATIENCE_S)
        (said,) = answers_of_ranks(asked).values()
        assert (said.state, said.text) == ("refused", "the job has loaded no framework that has a profiler")
        (place.folder / "asked").touch()
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    # A recording's alarm is all that is said.
    assert err == "hermes: step 1: nothing; the last 1 steps were written\n"
    assert column(job.log_path(0), "step") == list(range(1, int(out)))
    assert json.loads((place.folder / "recording/index.jsonl").read_text().splitlines()[-1])["alarm"] == "nothing"


@pytest.mark.parametrize("version", _here(OLD) or [pytest.param("", marks=pytest.mark.skip(reason=NO_OLD_PYTHON))])
def test_a_python_that_is_too_old_says_so_once_and_goes_on(place: Place, version: str) -> None:
    (place.folder / "own").mkdir()
    (place.folder / "own" / "torch.py").write_text("")
    (place.folder / "own" / "sitecustomize.py").write_text("print('own')\n")
    run = place.folder / "run"
    run.mkdir()
    paths = [str(INSIDE / "boot"), str(INSIDE / "record" / "boot"), str(place.folder / "own")]
    told = {"PYTHONPATH": os.pathsep.join(paths), "HERMES_JOB": str(run)}
    done = subprocess.run(
        [interpreters()[version], "-W", "error", "-c", "import torch; print('done')"], env=place.environment | told,
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "own\ndone\n")
    text = f"capture is off: Python {version} is too old, Hermes needs 3.8 or newer\n"
    assert done.stderr == f"hermes: {text}"
    assert (run / "capture-off.txt").read_text() == text


_WARNS = """
import time, warnings
import torch, torch.profiler
import hermes.inside
torch.set_num_threads(1)
def warns(holder, name):
    real = getattr(holder, name)
    def call(*args, **kwargs):
        warnings.warn(f"{name} will be gone", FutureWarning)
        return real(*args, **kwargs)
    setattr(holder, name, call)
warns(torch.profiler.profile, "__init__")
warns(torch.profiler.profile, "export_chrome_trace")
warns(torch, "_foreach_norm")
hermes.inside.start()
model = torch.nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
from pathlib import Path
while not Path("asked").exists():
    time.sleep(0.003)
    model(torch.ones(16, 32)).square().mean().backward()
    optimizer.step()
try:
    torch._foreach_norm([torch.ones(2)])
except FutureWarning:
    print("an error as ever")
"""


@pytest.mark.usefixtures("with_torch")
def test_a_warning_of_the_framework_that_is_an_error_ends_no_capture(place: Place) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _WARNS], env=place.environment, cwd=place.folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        (job,) = until(lambda: [job for job in place.jobs() if running(job) and progress_of_ranks(job)], PATIENCE_S)
        asked = request_capture_of_job(
            job, CaptureWish(steps=2, level="light", options={}, largest_bytes=10**7), now_ns=time.time_ns()
        )
        until(lambda: [1] if is_finished(answers_of_ranks(asked)) else [], PATIENCE_S)
        (said,) = answers_of_ranks(asked).values()
        assert said.state == "finished", said.text
        until(lambda: (job.folder / "numerics-rank0.jsonl").exists() or any(job.folder.glob("numerics*")), PATIENCE_S)
        (place.folder / "asked").touch()
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert out == "an error as ever\n"
    assert "hermes" not in err


def test_no_function_that_is_deprecated_in_the_newest_python_is_used() -> None:
    """By name, as the deprecations of Python 3.12 to 3.14 list them."""
    gone = re.compile(
        r"utcnow|utcfromtimestamp|load_module\(|find_loader|pkgutil\.(find|get)_loader|asyncio\.\w*policy|"
        r"ast\.(Num|Str|Bytes)|locale\.getdefaultlocale|\bimp\.|codecs\.open|__(cached|package)__\s*="
    )
    found = [
        f"{path.relative_to(INSIDE)}: {match[0]}"
        for path in INSIDE.rglob("*.py")
        if path.name != "sitecustomize.py"
        for match in gone.finditer(path.read_text())
    ]
    assert found == []
