"""Tasks for engines in tests: functions that other processes can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import HermesError


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A number to double, and what happens meanwhile: `dies` names a file that exists once a process has died."""

    number: int
    dies: Path | None = None
    always: bool = False


def doubled(task: Task) -> tuple[int, int]:
    """The doubled number, and the process that computed it."""
    if task.dies is not None and (task.always or not task.dies.exists()):
        task.dies.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * task.number, os.getpid()


def refused(task: Task) -> int:
    """Raise an error that a user can act on, for odd numbers."""
    if task.number % 2:
        raise HermesError("an odd number", where=str(task.number), lost="its double", hint="take an even one")
    return task.number


def wrong(task: Task) -> float:
    """Raise an error as a defect in the code would."""
    return task.number / 0
