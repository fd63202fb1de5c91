"""A raw capture of a live job becomes a finding in its watch without a hand; failing tools become a sentence."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from tests.jobs.live_job import LiveJob
from tests.patience import PATIENCE_S, until
from tests.profiles.read.ascend_raw.standin import tools

from hermes.base.message import Message
from hermes.base.say import say
from hermes.inside.wire.control import Slot
from hermes.inside.wire.process import own_identity
from hermes.jobs import messages
from hermes.jobs.watch_job import Watcher
from hermes_testing import Fault, Job, generate

pytestmark = pytest.mark.live

_SLOW = [12.0] * 20 + [9.9, 10.1] * 10 + [14.0] * 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a profiler leaves of a job that collects garbage in each step, and what the tools export of it."""
    job = Job(ranks=1, steps=2, seed=0, faults=(Fault(kind="ai_cpu_operators"),))
    return generate(tmp_path_factory.mktemp("made"), job, formats=["ascend-raw", "ascend-text"])


class Capturing:
    """A watched job whose rank answers a request with that raw capture, on a host with such tools."""

    def __init__(self, live: LiveJob, made: Path, folder: Path, patch: pytest.MonkeyPatch, fate: str) -> None:
        self.live, self._made = live, made
        host = tools(folder / "tools", made / "ascend-text", fate=fate)
        host["PYTHONPATH"] = os.pathsep.join((host["PYTHONPATH"], os.environ.get("PYTHONPATH", "")))
        for name, value in {**host, "HERMES_CACHE_DIR": str(folder / "cache")}.items():
            patch.setenv(name, value)
        if fate == "slow":
            patch.setenv("HERMES_EXPORT_SECONDS", "600")
        self.watcher = Watcher(
            live.job, preset="ksigma", environment=live.environment, capture=True, say=live.said.append
        )

    def until_captured(self) -> None:
        """The job becomes slow; the watcher asks, and the rank writes what torch_npu leaves."""
        self.live.steps(_SLOW)
        self.watcher.look(time.time_ns())
        asked = self.live.control.request()
        assert asked is not None
        epoch, request = asked
        shutil.copytree(
            self._made / "ascend-raw", Path(request.out) / "rank0", ignore=shutil.ignore_patterns("*.json.x")
        )
        pid, started = own_identity()
        self.live.control.say(0, Slot(rank=0, pid=pid, started=started, epoch=epoch, state="finished", text=""))
        self.watcher.look(time.time_ns())

    def finding(self) -> Message:
        """What the watcher said of it in the end, behind what changed."""

        def look() -> list[Message]:
            self.watcher.look(time.time_ns())
            return self.watcher.findings

        whole = until(look, PATIENCE_S)[0]
        assert whole.identifier == "jobs.changed_then"
        found = whole["found"]
        assert isinstance(found, Message)
        return found


@pytest.fixture
def capturing(
    live_job: LiveJob, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Capturing:
    return Capturing(live_job, made, tmp_path, monkeypatch, getattr(request, "param", ""))


def test_the_finding_appears_where_the_job_is_watched(capturing: Capturing) -> None:
    capturing.until_captured()
    assert capturing.finding()["code"] == "CMP003"
    (line,) = [line for line in capturing.live.lines if line.startswith("Finding: ")]
    assert line.index("Since step ") < line.index(" a step takes ") < line.index("CMP003 ")
    capturing.watcher.close(patience_s=0)


@pytest.mark.parametrize("capturing", ["fails", "killed"], indirect=True)
def test_a_failing_tool_is_a_sentence_with_what_to_run(capturing: Capturing) -> None:
    capturing.until_captured()
    found = capturing.finding()
    assert found.identifier == "jobs.without_device"
    said = say(found)
    assert "analyse(" in said
    capturing.watcher.close(patience_s=0)


@pytest.mark.parametrize("capturing", ["slow"], indirect=True)
def test_a_slow_tool_ends_with_the_watch_and_says_so(capturing: Capturing, tmp_path: Path) -> None:
    capturing.until_captured()
    until(lambda: [1] if _runs(tmp_path) else [], PATIENCE_S)
    capturing.watcher.close(patience_s=0)
    last = capturing.live.said[-1]
    assert isinstance(last, Message)
    assert last["found"]["found"] == messages.ANALYSIS_STOPPED
    until(lambda: [] if _runs(tmp_path) else [1], PATIENCE_S)


def _runs(folder: Path) -> list[str]:
    """The tools that run for that test."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                command = (process / "cmdline").read_text("utf-8", "replace")
            except OSError:
                continue
            if "analyse(sys.argv[1]" in command and str(folder) in command:
                found.append(command)
    return found
