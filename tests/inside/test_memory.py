"""A capture never takes the memory that the job needs: torch holds 1.6 kB a call of Python once it collects."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.inside.conftest import Place
from tests.inside.test_profile import answered, begin, stepping, wish
from tests.patience import PATIENCE_S

from hermes.inside.profile import memory
from hermes.inside.profile.memory import free_bytes, resident_bytes, suffices
from hermes.jobs.request_capture import answers_of_ranks, request_capture_of_job

pytestmark = pytest.mark.live

TRAIN = """
import os, sys, time
from pathlib import Path
import torch
from torch import nn
import hermes.inside
from hermes.inside.profile import captures
torch.set_num_threads(1)
state = lambda: getattr(hermes.inside._agent._captures, "_state", "")
captures.free_bytes = lambda: int(os.environ["LATER" if state() == "started" else "FREE"])
hermes.inside.start()
model = nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 32)
def call(one):
    return one
def work(calls):
    for at in range(calls):
        call(at)
usual, captured = int(os.environ["USUAL"]), int(os.environ["CAPTURED"])
for step in range(200_000):
    time.sleep(0.002)
    work(captured if state() == "started" else int(os.environ["ONCE"]) if step == 40 else usual)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0 and Path("seen").exists():
        break
print("whole", int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
"""


def trained(
    place: Place, *, free: float, later: float, usual: int, captured: int, once: int = 0
) -> subprocess.Popen[str]:
    """A job of steps with `usual` calls of Python, and `captured` while a capture records; one has `once`.

    So many bytes are `free` as a capture begins, and `later`.
    """
    settings = {"FREE": int(free), "LATER": int(later), "USUAL": usual, "CAPTURED": captured, "ONCE": once}
    return begin(place, sys.executable, "-c", TRAIN, **{name: str(value) for name, value in settings.items()})


def told(place: Place, **asks: object) -> tuple[str, str, list[Path]]:
    """The state and the text of one capture, and its files."""
    asked = request_capture_of_job(stepping(place), wish(largest_bytes=10**9, **asks), now_ns=time.time_ns())
    (state,) = answered(asked).values()
    return state, answers_of_ranks(asked)[0].text, list(asked.folder.iterdir())


def whole(place: Place, process: subprocess.Popen[str]) -> int:
    """The job ends as if nothing had been; how much memory it held then."""
    (place.folder / "seen").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return int(out.split()[-1])


@pytest.mark.usefixtures("with_torch")
def test_stacks_that_would_not_fit_are_left_out_or_refused_where_they_were_asked_for(place: Place) -> None:
    process = trained(place, free=1e6, later=1e12, usual=20_000, captured=20_000)
    state, text, _ = told(place, level="full")
    assert (state, "without Python stacks" in text) == ("finished", True)
    state, text, made = told(place, level="light", options={"stack": "yes"})
    assert (state, made) == ("refused", [])
    assert "--no-stack or fewer steps take less" in text
    whole(place, process)


@pytest.mark.usefixtures("with_torch")
def test_a_capture_ends_before_the_step_that_would_fill_the_memory(place: Place) -> None:
    process = trained(place, free=4e9, later=4e9, usual=100, captured=250_000)
    state, text, (trace,) = told(place, level="full", steps=20)
    assert state == "finished"
    assert "of 20, since more would not fit in memory" in text
    steps = {one["name"] for one in json.loads(trace.read_bytes())["traceEvents"] if "ProfilerStep" in one["name"]}
    assert 1 <= len(steps) < 20
    whole(place, process)


@pytest.mark.usefixtures("with_torch")
def test_a_step_that_may_come_again_counts_with_all_its_calls(place: Place) -> None:
    # The mean of all steps fits; one as long as the longest does not.
    process = trained(place, free=2e8, later=1e12, usual=100, captured=100, once=5_000_000)
    state, text, _ = told(place, level="full")
    assert (state, "without Python stacks" in text) == ("finished", True)
    whole(place, process)


@pytest.mark.parametrize(("needed", "free", "enough"), [(75, 100, True), (76, 100, False), (10**15, None, True)])
def test_a_quarter_of_the_free_memory_is_the_jobs(needed: int, free: int | None, enough: bool) -> None:
    assert suffices(needed, free) is enough


def test_the_smallest_limit_counts_and_unused_files_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:  90 kB\n")
    own, root = tmp_path / "self", tmp_path / "cgroup"
    for folder in (own, root / "job/rank"):
        folder.mkdir(parents=True)
    (own / "cgroup").write_text("0::/job/rank\n")
    monkeypatch.setattr(memory, "_OWN", own)
    monkeypatch.setattr(memory, "_CGROUPS", root)
    assert free_bytes(tmp_path / "meminfo") == 90 * 1024
    for folder, most in ((root / "job/rank", "max"), (root / "job", "60000")):
        (folder / "memory.max").write_text(most)
        (folder / "memory.current").write_text("50000")
        (folder / "memory.stat").write_text("anon 1000\ninactive_file 20000\n")
    assert free_bytes(tmp_path / "meminfo") == 60_000 - 50_000 + 20_000
    assert free_bytes(tmp_path / "nothing") == 30_000
    assert resident_bytes() == 0
