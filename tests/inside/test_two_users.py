"""Two users on one machine: whatever one of them puts where the other's Hermes looks, the other's job runs.

Run as root, which can be both; skipped otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from tests.patience import PATIENCE_S, until
from tests.skips import needs_root

from hermes.base.errors import HermesError
from hermes.inside.wire import shared_memory_file
from hermes.inside.wire.control import Control
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.steplog import read_rows
from hermes.jobs.request_capture import CaptureWish, find_job, progress_of_ranks, request_capture_of_job

pytestmark = [pytest.mark.live, needs_root]
VICTIM, OTHER = 65_533, 65_534
LOOP = """
import time
import hermes.inside as capture
capture.start()
for number in range(STEPS):
    time.sleep(0.001)
    capture.step()
print("done")
"""
HERMES = "from hermes.cli import command; command()"


_SOURCE = Path(__file__).resolve().parents[2] / "src"


def _python(libraries: Path) -> str:
    """A Python that any user may start: that of the tests may lie where only root may look."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import click; sys.exit(sys.version_info < (3, 10))"
    for name in (sys.executable, "/usr/bin/python3"):
        tried = subprocess.run(
            [name, "-c", script, str(libraries)],
            user=VICTIM, group=VICTIM, extra_groups=[], cwd="/", capture_output=True, check=False,
        ) if _can_start(name) else None  # fmt: skip
        if tried is not None and tried.returncode == 0:
            return name
    pytest.skip("no Python here can be started by another user")


def _can_start(name: str) -> bool:
    child = os.fork()
    if child == 0:
        os.setuid(VICTIM)
        os._exit(0 if os.access(name, os.X_OK) else 1)
    return os.waitpid(child, 0)[1] == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A folder that all may write, as /dev/shm and /tmp are, and the homes of two users."""

    shared: Path
    home: Path
    python: str

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "XDG_"))}
        return kept | {
            "HERMES_SHM_DIR": str(self.shared),
            "HERMES_RUN_DIR": str(self.home / "jobs"),
            "HOME": str(self.home),
            "PYTHONPATH": str(self.shared.with_name("libraries")),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def begin(self, *command: str, user: int = VICTIM, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=self.environment | environment, cwd=self.home, user=user, group=user, extra_groups=[],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def loop(self, steps: int = 50, **environment: str) -> tuple[int, str, str]:
        process = self.begin(self.python, "-c", LOOP.replace("STEPS", str(steps)), **environment)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def run(self, *command: str, **environment: str) -> tuple[int, str, str]:
        process = self.begin(self.python, "-c", HERMES, "run", "--no-watch", "--", *command, **environment)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err


@pytest.fixture
def machine() -> Iterator[Machine]:
    # Not below the test's own folder, which is root's alone.
    with tempfile.TemporaryDirectory(prefix="two-users-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "shared").mkdir()
        (root / "shared").chmod(0o1777)
        (root / "home").mkdir(mode=0o700)
        os.chown(root / "home", VICTIM, VICTIM)
        # Where the sources and click lie, perhaps only root may look.
        for package in (_SOURCE / "hermes", Path(click.__file__).parent):
            shutil.copytree(package, root / "libraries" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        yield Machine(shared=root / "shared", home=root / "home", python=_python(root / "libraries"))


def as_other(call: Callable[[], object]) -> None:
    """Do that as the other user."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(OTHER)
            os.setuid(OTHER)
            os.umask(0)
            call()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def folder_of(machine: Machine) -> Path:
    return machine.shared / f"hermes-{VICTIM}"


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "file"])
def test_whatever_another_user_puts_in_the_place_of_our_folder_the_job_is_watched(machine: Machine, kind: str) -> None:
    place = folder_of(machine)
    make = {
        "pipe": lambda: os.mkfifo(place),
        "folder": lambda: place.mkdir(mode=0o777),
        "link": lambda: place.symlink_to("/tmp"),
        "file": lambda: place.write_text("x"),
    }[kind]
    as_other(make)
    assert os.lstat(place).st_uid == OTHER
    code, out, err = machine.loop()
    assert (code, out) == (0, "done\n")
    (only,) = err.splitlines()
    instead = f"this job shares its memory in {machine.home / 'jobs' / place.name} instead"
    assert only.startswith("hermes: ")
    assert only.endswith(instead)
    assert _steps(machine) == [49]
    code, out, err = machine.run(machine.python, "-c", LOOP.replace("STEPS", "50") + "raise SystemExit(5)")
    assert (code, out) == (5, "done\n")
    assert err.count(instead) == 1
    assert _steps(machine) == [49, 49]
    assert os.lstat(place).st_uid == OTHER


def test_a_folder_of_the_session_is_used_before_that_of_run_directories(machine: Machine) -> None:
    session = machine.shared.parent / "session"
    session.mkdir(mode=0o700)
    os.chown(session, VICTIM, VICTIM)
    as_other(lambda: folder_of(machine).mkdir())
    environment = {"XDG_RUNTIME_DIR": str(session)}
    process = machine.begin(machine.python, "-c", LOOP.replace("STEPS", "100000"), **environment)
    try:
        ring = until(lambda: list((session / f"hermes-{VICTIM}").glob("*.0.*")), PATIENCE_S)
        assert [path.parent.name for path in ring] == [f"hermes-{VICTIM}"]
    finally:
        process.kill()
        process.communicate()
    # One that others can write is as bad as the usual place.
    session.chmod(0o777)
    code, _, err = machine.loop(XDG_RUNTIME_DIR=str(session))
    assert code == 0
    assert f"in {machine.home / 'jobs' / folder_of(machine).name} instead" in err


def _steps(machine: Machine) -> list[int]:
    """How many records the step log of each job has: of 50 steps the first one has none."""
    logs = sorted((machine.home / "jobs").glob("*/steps-rank0.log"), key=lambda log: log.stat().st_mtime_ns)
    return [sum(1 for _ in read_rows(log)) for log in logs]


def test_a_pipe_with_our_old_prefix_is_looked_at_by_nobody(machine: Machine) -> None:
    as_other(lambda: os.mkfifo(machine.shared / f"hermes-{VICTIM}-train-1-1-0123456789ab"))
    assert machine.loop() == (0, "done\n", "")
    assert machine.run(machine.python, "-c", "raise SystemExit(5)")[0] == 5


def test_names_of_scripts_and_processes_are_for_nobody_else(machine: Machine) -> None:
    process = machine.begin(machine.python, "-c", LOOP.replace("STEPS", "100000"))
    try:
        until(lambda: folder_of(machine).exists() and list(folder_of(machine).iterdir()))
        assert [path.name for path in machine.shared.iterdir()] == [folder_of(machine).name]
        assert folder_of(machine).stat().st_mode & 0o777 == 0o700
        told = machine.home / "told"
        told.touch()
        told.chmod(0o666)
        machine.home.chmod(0o755)
        as_other(lambda: told.write_text(str(os.access(folder_of(machine), os.R_OK | os.X_OK))))
        assert told.read_text() == "False"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_fall_back_for_run_directories_that_another_user_holds_is_not_used(machine: Machine, kind: str) -> None:
    place = machine.shared / "fallback"
    mine = machine.home / "mine"
    mine.mkdir(mode=0o700)
    os.chown(mine, VICTIM, VICTIM)
    as_other((lambda: place.mkdir()) if kind == "folder" else (lambda: place.symlink_to(mine)))
    code, out, err = machine.loop(HERMES_RUN_DIR=str(place))
    assert (code, out) == (0, "done\n")
    assert "capture is off" in err
    assert list(mine.iterdir()) == []
    assert machine.run(machine.python, "-c", "raise SystemExit(5)", HERMES_RUN_DIR=str(place))[0] == 5


@pytest.mark.smoke
def test_an_operator_sees_and_captures_jobs_of_others_only_as_the_policy_of_root_says(machine: Machine) -> None:
    policy, audit = machine.shared.parent / "policy.json", machine.shared.parent / "audit.jsonl"
    environment = {"HERMES_SHM_DIR": str(machine.shared), "HERMES_POLICY": str(policy)}
    process = machine.begin(machine.python, "-c", LOOP.replace("STEPS", "1000000"))
    try:
        until(lambda: folder_of(machine).exists() and list(folder_of(machine).glob("*.0.*")), PATIENCE_S)
        with pytest.raises(HermesError, match="policy file of root"):
            find_job("", environment, user=str(VICTIM))
        text = {"operators": ["root"], "users": [str(VICTIM)], "capture": False, "audit": str(audit)}
        policy.write_text(json.dumps(text))
        policy.chmod(0o644)
        job = find_job("", environment, user=str(VICTIM))
        assert job.user == VICTIM
        until(lambda: progress_of_ranks(job))
        with pytest.raises(HermesError, match="does not let root capture"):
            find_job("", environment, user=str(VICTIM), action="capture")
        policy.write_text(json.dumps(text | {"capture": True}))
        job = find_job("", environment, user=str(VICTIM), action="capture")
        asked = request_capture_of_job(job, CaptureWish(steps=1, level="light", options={}), now_ns=10**18)
        assert not asked.folder.exists()
        actions = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [(one["action"], one["account"], one["user"]) for one in actions] == [
            ("see", "root", str(VICTIM)), ("capture", "root", str(VICTIM))
        ]  # fmt: skip
        policy.chmod(0o666)
        with pytest.raises(HermesError, match="root alone can write"):
            find_job("", environment, user=str(VICTIM))
    finally:
        shared_memory_file.also_of.clear()
        process.kill()
        process.communicate()


@pytest.mark.smoke
def test_a_segment_of_another_user_is_turned_away(machine: Machine) -> None:
    place = machine.shared / "hermes-0"
    place.mkdir(mode=0o700)
    Control.create(place / "a-0123456789ab", {"job": "a"}).close()
    os.chown(place / "a-0123456789ab", OTHER, OTHER)
    with pytest.raises(LiveError, match=f"belongs to user {OTHER}"):
        Control.attach(place / "a-0123456789ab")
