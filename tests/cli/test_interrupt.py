"""Ctrl-C and SIGTERM end every command at once, at any time: one line, the exit code, no process and no folder left.

The moments are random, with a seed for each command. tests/store/test_unfinished_folders.py has all named ones.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.patience import PATIENCE_S, until
from tests.precision.drawn import Drawing
from tests.precision.drawn import random as drawn

from hermes.base.processes import lives
from hermes.store.unfinished_folders import sweep
from hermes_testing import Job, generate

pytestmark = pytest.mark.live

HERMES = Path(sys.executable).with_name("hermes")
ENDS_S = 30.0
"""From the signal to the end. A quiet machine takes 0.2 s; a busy one may give a process no core for seconds."""
MARK = "HERMES_TEST_OF_INTERRUPTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and after how long."""

    code: int
    seconds: float
    err: str


class Started:
    """A command that runs in a group of its own, as a shell starts it."""

    def __init__(self, cache: Path, *words: object) -> None:
        self._mark = f"{MARK}={os.getpid()}.{time.monotonic_ns()}"
        name, value = self._mark.split("=")
        self.cache = cache
        self.process = subprocess.Popen(
            [str(HERMES), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True, text=True,
            env={**os.environ, "HERMES_CACHE_DIR": str(cache), name: value},
        )  # fmt: skip

    def armed(self) -> bool:
        """Whether Hermes runs: Python itself heeds an interrupt, and says so in its own way, but no SIGTERM."""
        try:
            told = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return True
        caught = next((line.split()[1] for line in told.splitlines() if line.startswith("SigCgt")), "0")
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)

    def processes(self) -> list[int]:
        """All that lives of what the command has started, wherever it hangs by now."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and folder.name != str(self.process.pid):
                try:
                    mine = self._mark.encode() in (folder / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if mine and lives(int(folder.name)):
                    found.append(int(folder.name))
        return found

    def end(self, number: signal.Signals) -> Ended:
        begin = time.monotonic()
        os.killpg(self.process.pid, number)
        _, err = self.process.communicate(timeout=PATIENCE_S)
        return Ended(code=self.process.returncode, seconds=time.monotonic() - begin, err=err)

    def kill(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("long")
    generate(root / "job", Job(ranks=6, steps=12, layers=6), formats=["ascend-text"])
    for name in ("golden", "target"):
        for rank in (0, 1):
            draw = Drawing(root / name, rank=rank, tensors=True)
            last = draw.value(drawn(rank, 50_000))
            for at in range(120):
                array = drawn(at, 50_000) + np.float32(0.001 * (name == "target"))
                (last,) = draw.op("aten.add.Tensor", [last, last], array, module="Net")
            draw.close()
    lines = "\n".join(f"    x = x.cuda() + torch.zeros({at}, device='cuda').half()" for at in range(300))
    for at in range(400):
        path = root / "tree" / f"part{at}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import torch\n\ndef forward(x):\n{lines}\n    return x\n\nforward(torch.ones(3).cuda())\n")
    return root


COMMANDS = {
    "analyze": ("analyze", "job"),
    "analyze in one process": ("analyze", "job", "--engine", "serial"),
    "operators": ("operators", "job"),
    "compare": ("compare", "job", "job"),
    "whatif": ("whatif", "job"),
    "export": ("export", "job", "--perfetto", "timeline.pftrace"),
    "sql": ("sql", "job", "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 1"),
    "migrate scan": ("migrate", "scan", "tree"),
    "precision compare": ("precision", "compare", "golden", "target"),
    "serve": ("serve", "job"),
    "watch": ("watch",),
    "watch, line by line": ("watch", "--log"),
}
LONGEST_S = {"sql": 8.0, "serve": 6.0}


def words(command: str, inputs: Path, tmp_path: Path) -> list[object]:
    places = {name: inputs / name for name in ("job", "golden", "target", "tree")}
    return [
        places.get(word, tmp_path / word if "." in word and " " not in word else word) for word in COMMANDS[command]
    ]


def assert_ended(command: Started, ended: Ended, number: signal.Signals) -> None:
    said = "hermes: interrupted\n" if number == signal.SIGINT else "hermes: ended by SIGTERM\n"
    lines = [line for line in ended.err.splitlines(keepends=True) if not line.startswith("hermes: reading")]
    assert (ended.code, "".join(lines[-1:])) == (128 + number, said), ended.err
    assert "Traceback" not in ended.err
    assert ended.seconds < ENDS_S
    # Workers are gone when the command is, except one that was just being started: it sees that, and ends.
    until(lambda: not command.processes(), ENDS_S)
    # What was begun in the last moment and is locked by nobody is no fault: it goes when the cache is used next.
    sweep(command.cache)
    assert left_over(command.cache) == []
    assert list(command.cache.parent.glob(".write-*")) == []


def left_over(cache: Path) -> list[str]:
    return [path.name for path in (cache / "making").glob("*")]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_ends_the_command(inputs: Path, tmp_path: Path, command: str) -> None:
    chance = random.Random(command)
    moments = (0.2, signal.SIGINT), (1.0, signal.SIGTERM), (LONGEST_S.get(command, 3.0), signal.SIGINT)
    for attempt, (until_s, number) in enumerate(moments):
        started = Started(tmp_path / f"cache{attempt}", *words(command, inputs, tmp_path))
        try:
            until(started.armed, PATIENCE_S)
            time.sleep(chance.uniform(0, until_s))
            if started.process.poll() is None:
                assert_ended(started, started.end(number), number)
        finally:
            started.kill()


@pytest.fixture
def analysis(inputs: Path, tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path / "cache", "analyze", inputs / "job", "--jobs", "2")
    yield started
    started.kill()


def _writes(started: Started) -> bool:
    return len(started.processes()) >= 2 and len(left_over(started.cache)) >= 2


@pytest.mark.smoke
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_that_write_end_with_the_command(analysis: Started, number: signal.Signals) -> None:
    until(lambda: _writes(analysis), PATIENCE_S)
    assert_ended(analysis, analysis.end(number), number)


def test_workers_of_a_command_that_was_killed_end_and_the_next_one_clears_up(analysis: Started, inputs: Path) -> None:
    until(lambda: _writes(analysis), PATIENCE_S)
    analysis.end(signal.SIGKILL)
    until(lambda: not analysis.processes(), ENDS_S)
    assert left_over(analysis.cache) != []
    subprocess.run(
        [str(HERMES), "analyze", str(inputs / "job"), "--ranks", "0"], check=True, stdout=subprocess.DEVNULL,
        env={**os.environ, "HERMES_CACHE_DIR": str(analysis.cache)}, timeout=PATIENCE_S,
    )  # fmt: skip
    assert left_over(analysis.cache) == []


def test_forked_workers_end_with_a_command_that_was_killed(inputs: Path, tmp_path: Path) -> None:
    started = Started(tmp_path / "cache", "migrate", "scan", inputs / "tree")
    try:
        until(lambda: started.processes() or started.process.poll() is not None, PATIENCE_S)
        assert started.end(signal.SIGKILL).code == -signal.SIGKILL
        until(lambda: not started.processes(), ENDS_S)
    finally:
        started.kill()


def test_two_interrupts_are_as_one(analysis: Started) -> None:
    until(lambda: _writes(analysis), PATIENCE_S)
    for _ in range(3):
        os.killpg(analysis.process.pid, signal.SIGINT)
    assert_ended(analysis, analysis.end(signal.SIGINT), signal.SIGINT)


def test_a_command_that_was_started_to_ignore_interrupts_goes_on(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = Started(tmp_path / "cache", "watch", "--log")
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        until(started.armed, PATIENCE_S)
        os.killpg(started.process.pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            started.process.wait(0.5)
        assert started.end(signal.SIGTERM).code == 128 + signal.SIGTERM
    finally:
        started.kill()
