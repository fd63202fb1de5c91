"""Starts the variants of a zoo program as processes, lets one run while the others rest, and asks them for steps."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.judgement.zoo.entry import Entry
from hermes.base.errors import HermesError

_CHILD = Path(__file__).with_name("child.py")
_PATIENCE_S = 240.0
_OURS = ("HERMES_", "ZOO_", "OMP_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


class ZooError(HermesError):
    """A program of the zoo ended, or gave no answer."""


class Nursery:
    """The process that has loaded PyTorch and forks programs; one process serves all programs."""

    def __enter__(self) -> Nursery:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self._process = subprocess.Popen(
            [sys.executable, str(_CHILD)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=kept | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def fork(self, request: Mapping[str, object]) -> int:
        """The number of a new process that runs a program. Raises `ZooError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ZooError("the process that forks the programs ended", where=str(_CHILD))
        return int(line)


class Rank:
    """One process of a variant, with a pipe for questions and a pipe for answers."""

    def __init__(self, nursery: Nursery, entry: Entry, variant: str, folder: Path, number: int) -> None:
        self.name = f"{entry.name}, {variant}, rank {number}"
        self._folder = folder / f"rank{number}"
        self._folder.mkdir(parents=True)
        asked, answers = self._folder / "asked", self._folder / "answers"
        for pipe in (asked, answers):
            os.mkfifo(pipe)
        # Open for both directions: neither end waits for the other, and no end of file comes before its time.
        self._asked, self._answers = (os.open(pipe, os.O_RDWR) for pipe in (asked, answers))
        self._left = b""
        self.pid = nursery.fork(
            {
                "file": str(entry.path), "program": entry.program, "variant": variant, "folder": str(self._folder),
                "environment": _environment(entry, folder, number), "asked": str(asked), "answers": str(answers),
            }
        )  # fmt: skip

    def say(self, question: Mapping[str, object]) -> None:
        """Send a question to the process."""
        os.write(self._asked, (json.dumps(question) + "\n").encode())

    def hear(self, end: float) -> dict[str, Any]:
        """The answer of the process, waited for until `end` on the monotonic clock. Raises `ZooError`."""
        while b"\n" not in self._left:
            ready, _, _ = select.select([self._answers], [], [], 0.5)
            if ready:
                self._left += os.read(self._answers, 1 << 20)
            elif time.monotonic() > end or not self.runs:
                raise ZooError(
                    "a program of the zoo gave no answer" if self.runs else "a program of the zoo ended",
                    where=self.name, hint=self._said(),
                )  # fmt: skip
        line, _, self._left = self._left.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _said(self) -> str:
        path = self._folder / "said.txt"
        lines = path.read_text("utf-8", "replace").strip().splitlines() if path.exists() else []
        return lines[-1] if lines else "it said nothing"

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.signal(signal.SIGKILL)
        for _ in range(200):
            if not self.runs:
                break
            time.sleep(0.01)
        os.close(self._asked)
        os.close(self._answers)


class Variant:
    """All ranks of one variant of a program, which are stopped unless they are asked something."""

    def __init__(self, nursery: Nursery, entry: Entry, variant: str, folder: Path) -> None:
        self.folder = folder
        self._ranks = [Rank(nursery, entry, variant, folder, number) for number in range(entry.ranks)]

    def __enter__(self) -> Variant:
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self._ranks:
            rank.end()

    def ask(self, **question: object) -> list[dict[str, Any]]:
        """Wake the variant, ask all ranks, wait for the answers, and stop it again. Raises `ZooError`."""
        out = question.pop("out", None)
        for number, rank in enumerate(self._ranks):
            rank.signal(signal.SIGCONT)
            rank.say(question | ({"out": f"{out}/rank{number}.pt.trace.json"} if out else {}))
        end = time.monotonic() + _PATIENCE_S
        answers = [rank.hear(end) for rank in self._ranks]
        for rank in self._ranks:
            # All its processes are stopped: loaders' workers and threads take no time from the other variants.
            rank.signal(signal.SIGSTOP)
        return answers

    def steps(self, count: int) -> list[int]:
        """Do `count` steps; returns the nanoseconds of each, of the rank that took longest in all."""
        walls: Sequence[list[int]] = [answer["walls_ns"] for answer in self.ask(do="steps", count=count)]
        return max(walls, key=sum)


def _environment(entry: Entry, folder: Path, rank: int) -> Mapping[str, str]:
    shared = folder / "shm"
    shared.mkdir(exist_ok=True)
    named = {"HERMES_RUN_DIR": str(folder / "jobs"), "HERMES_SHM_DIR": str(shared)}
    if not entry.causes:
        # A healthy program, of another cause too: convolutions touched 2,300 new pages a step, a quarter of it.
        named["ZOO_KEEP_MEMORY"] = "1"
    if entry.ranks > 1:
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(entry.ranks)}
        named |= place | {"ZOO_MEETING": str(folder / "meeting")}
    return named
