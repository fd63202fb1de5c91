"""Starts the variants of a program as processes, lets one run while the others rest, and asks them for steps."""

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

from hermes.base.errors import HermesError
from hermes.testing.zoo.entries import Entry

_CHILD = Path(__file__).with_name("child.py")
_PATIENCE_S = 120.0


class ZooError(HermesError):
    """A program of the zoo ended, or gave no answer."""


class Variant:
    """All ranks of one variant of a program, at rest unless they are asked something."""

    def __init__(self, entry: Entry, variant: str, folder: Path) -> None:
        self._where = f"{entry.name}, {variant}"
        self._folder = folder
        folder.mkdir(parents=True)
        self._ranks = [self._start(entry, variant, rank) for rank in range(entry.ranks)]

    def _start(self, entry: Entry, variant: str, rank: int) -> subprocess.Popen[str]:
        # A session of its own: whatever the program starts rests and ends with it.
        return subprocess.Popen(
            [sys.executable, str(_CHILD), str(entry.path), entry.program, variant],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(self._folder / f"rank{rank}.err").open("w"),
            text=True, cwd=self._folder, env=_environment(entry, self._folder, rank), start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Variant:
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)
        for rank in self._ranks:
            rank.wait()
            for pipe in (rank.stdin, rank.stdout):
                if pipe is not None:
                    # What it was asked last may still be in the pipe's buffer.
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        for rank in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.pid, number)

    def rest(self) -> None:
        """Stop every process of it, so that it takes nothing from the others."""
        self._signal(signal.SIGSTOP)

    def ask(self, **question: object) -> list[dict[str, Any]]:
        """Wake it, ask all ranks, wait for the answers, and let it rest. Raises `ZooError`."""
        self._signal(signal.SIGCONT)
        out = question.pop("out", None)
        for number, rank in enumerate(self._ranks):
            line = json.dumps(question | ({"out": f"{out}/rank{number}.pt.trace.json"} if out else {}))
            with contextlib.suppress(BrokenPipeError):
                assert rank.stdin is not None
                rank.stdin.write(line + "\n")
                rank.stdin.flush()
        end = time.monotonic() + _PATIENCE_S
        answers = [self._answer(rank, number, end) for number, rank in enumerate(self._ranks)]
        self.rest()
        return answers

    def _answer(self, rank: subprocess.Popen[str], number: int, end: float) -> dict[str, Any]:
        assert rank.stdout is not None
        ready, _, _ = select.select([rank.stdout], [], [], max(end - time.monotonic(), 0))
        line = rank.stdout.readline() if ready else ""
        if not line:
            said = (self._folder / f"rank{number}.err").read_text("utf-8", "replace").strip().splitlines()
            what = "a program of the zoo gave no answer" if not ready else "a program of the zoo ended"
            raise ZooError(what, where=f"{self._where}, rank {number}", hint=said[-1] if said else "it said nothing")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def steps(self, count: int) -> list[int]:
        """Do that many steps; the nanoseconds of each, of the rank that took longest in all."""
        walls: Sequence[list[int]] = [answer["walls_ns"] for answer in self.ask(do="steps", count=count)]
        return max(walls, key=sum)


def _environment(entry: Entry, folder: Path, rank: int) -> Mapping[str, str]:
    shared = folder / "shm"
    shared.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "ZOO_", "OMP_"))}
    named = {"OMP_NUM_THREADS": "1", "HERMES_RUN_DIR": str(folder / "jobs"), "HERMES_SHM_DIR": str(shared)}
    if entry.ranks > 1:
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(entry.ranks)}
        named |= place | {"ZOO_MEETING": str(folder / "meeting")}
    return kept | named
