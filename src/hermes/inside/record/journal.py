"""The index of one rank: lines that are appended, or kept in a ring of steps until an alarm."""

from __future__ import annotations

import collections
import json
import os
import sys
from typing import Any

from hermes.inside.record.layout import FORMAT, INDEX
from hermes.inside.record.options import Options

_MOST_ALARMS = 3
"""Alarms after which a ring is not kept on: what went wrong first is in it."""
encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def encode_all(lines: list[dict[str, Any]]) -> list[str]:
    """Many lines. The encoder of C that `encode` makes anew each time is made once, where this Python has one."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return [encode(line) for line in lines]
    one = make(None, str, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return ["".join(one(line, 0)) for line in lines]


class Journal:
    """Writes lines of a recording; nothing is made on the disk before `open`."""

    def __init__(self, folder: str, options: Options, framework: str, version: str, *, rank: int, world: int) -> None:
        self._folder = folder
        self._head = {"framework": framework, "version": version, "rank": rank, "world": world}
        self._asked = options.asked
        self._steps: collections.deque[list[str]] | None = (
            collections.deque(maxlen=options.ring) if options.ring else None
        )
        self._alarms = 0
        self._file: int | None = None

    @property
    def holds(self) -> bool:
        """Whether steps wait in the ring."""
        return bool(self._steps)

    @property
    def over(self) -> bool:
        """Whether there were as many alarms as are written."""
        return self._alarms >= _MOST_ALARMS

    def open(self) -> None:
        """Make the folder and the file with its head, once."""
        import time

        if self._file is not None:
            return
        os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103
        path = os.path.join(self._folder, INDEX)  # noqa: PTH118
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        head = {
            "format": FORMAT, **self._head, "process": os.getpid(), "started_ns": time.time_ns(),
            "command": [str(one)[:200] for one in sys.argv[:50]], "options": self._asked,
            "python": sys.version.split()[0],
        }  # fmt: skip
        os.write(self._file, (json.dumps(head, allow_nan=False) + "\n").encode())

    def begin(self, line: str) -> None:
        """The first line of a step."""
        if self._steps is None:
            self.append([line])
        else:
            self._steps.append([line])

    def write(self, lines: list[str]) -> None:
        """Lines of the step that began last: into the file, or into the ring."""
        if self._steps is None:
            self.append(lines)
        elif self._steps:
            self._steps[-1].extend(lines)

    def append(self, lines: list[str]) -> None:
        """Lines that belong into the file in any case."""
        if not lines:
            return
        self.open()
        assert self._file is not None
        data = ("\n".join(lines) + "\n").encode("utf-8", "replace")
        while data:
            data = data[os.write(self._file, data) :]

    def alarm(self, step: int, reason: str) -> None:
        """Write the steps that the ring holds: something went wrong in this one."""
        held = list(self._steps or ())
        if self._steps is not None:
            self._steps.clear()
        self._alarms += 1
        say(f"step {step}: {reason[:500]}; the last {len(held)} steps were written")
        for lines in held:
            self.append(lines)
        self.append([encode({"alarm": reason[:500], "step_seen": step})])


def say(text: str) -> None:
    """One line on the error stream."""
    print(f"hermes: {text}", file=sys.stderr, flush=True)  # noqa: T201
