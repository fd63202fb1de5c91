"""The index of one rank: lines that are appended, or kept in a ring of steps until an alarm."""

from __future__ import annotations

import collections
import json
import math
import os
import sys
from collections.abc import Callable
from typing import Any

from hermes.inside.record.layout import FORMAT, INDEX, STATISTICS
from hermes.inside.record.options import Options
from hermes.inside.say import say
from hermes.inside.wire.held import Held

_MOST_ALARMS = 3
"""Alarms after which a ring is not kept on: what went wrong first is in it."""


def _encoder() -> Callable[[dict[str, Any]], str]:
    """Strict JSON. Its encoder of C, which is else made anew for each line, is made once where this Python has one."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
    one = make(None, str, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda line: "".join(one(line, 0))


encode = _encoder()
_COUNTS = ("nan", "inf", "zeros")
_FORMS = {
    digits: ',"stats":[' + ",".join("%d" if name in _COUNTS else f"%.{digits}g" for name in STATISTICS) + "]}"
    for digits in (9, 17)
}
"""Of statistics: as many digits as tell all numbers of float32, or of float64, from each other."""


def encode_all(lines: list[Any]) -> list[str]:
    """Many lines, of which some may be text already."""
    return [line if type(line) is str else encode(line) for line in lines]


def encode_value(line: dict[str, Any]) -> str:
    """The line of a value. Its statistics are most of a recording."""
    row = line.pop("stats", None)
    if row is None:
        return encode(line)
    text = encode(line)
    line["stats"] = row
    if math.isfinite(sum(row)):
        return text[:-1] + _FORMS[17 if line["dtype"] in ("float64", "complex128") else 9] % tuple(row)
    return encode({**line, "stats": [jsonable(one) for one in row]})


def encode_values(lines: list[Any]) -> list[str]:
    """Many lines of values."""
    return [line if type(line) is str else encode_value(line) for line in lines]


def jsonable(number: float) -> float | str:
    """A number that strict JSON holds, or its name."""
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


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
        self._file: Held | None = None

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
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        made = os.open(path, flags | os.O_CREAT | os.O_TRUNC, 0o644)
        self._file = Held(made, lambda: os.open(path, flags))
        head = {
            "format": FORMAT, **self._head, "process": os.getpid(), "started_ns": time.time_ns(),
            "command": [str(one)[:200] for one in sys.argv[:50]], "options": self._asked,
            "python": sys.version.split()[0],
        }  # fmt: skip
        os.write(self._file.number, (json.dumps(head, allow_nan=False) + "\n").encode())

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
            data = data[os.write(self._file.number, data) :]

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
