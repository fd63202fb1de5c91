"""Writes the index of one rank's recording: lines that are appended, or kept in a ring of steps until an alarm."""

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
from hermes.inside.warn_once import say
from hermes.inside.wire.open_files import OpenFile

_MOST_ALARMS = 3
"""Number of alarms after which a ring records no more: the first fault is then written."""


def _encoder() -> Callable[[dict[str, Any]], str]:
    """An encoder of strict JSON. Python's C encoder is made once, where this Python has one, and not for each line."""
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
"""Formats of statistics, with enough digits to tell all numbers of float32, or of float64, apart."""


def encode_all(lines: list[Any]) -> list[str]:
    """Encode many lines as JSON; a line that is text already stays as it is."""
    return [line if type(line) is str else encode(line) for line in lines]


def encode_value(line: dict[str, Any]) -> str:
    """Encode the line of a value. Values' statistics are most of a recording."""
    row = line.pop("stats", None)
    if row is None:
        return encode(line)
    text = encode(line)
    line["stats"] = row
    if math.isfinite(sum(row)):
        return text[:-1] + _FORMS[17 if line["dtype"] in ("float64", "complex128") else 9] % tuple(row)
    return encode({**line, "stats": [jsonable(one) for one in row]})


def encode_values(lines: list[Any]) -> list[str]:
    """Encode the lines of many values as JSON."""
    return [line if type(line) is str else encode_value(line) for line in lines]


def jsonable(number: float) -> float | str:
    """A number that strict JSON holds; the name of NaN or an infinity."""
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


class Journal:
    """The writer of a recording's index; nothing is made on the disk before `open`."""

    def __init__(self, folder: str, options: Options, framework: str, version: str, *, rank: int, world: int) -> None:
        self._folder = folder
        self._head = {"framework": framework, "version": version, "rank": rank, "world": world}
        self._asked = options.asked
        self._steps: collections.deque[list[str]] | None = (
            collections.deque(maxlen=options.ring) if options.ring else None
        )
        self._alarms = 0
        self._file: OpenFile | None = None

    @property
    def holds(self) -> bool:
        """Whether the ring holds steps that are not written."""
        return bool(self._steps)

    @property
    def over(self) -> bool:
        """Whether the largest number of alarms has been written."""
        return self._alarms >= _MOST_ALARMS

    def open(self) -> None:
        """Make the folder and the index file with its head, once."""
        import time

        if self._file is not None:
            return
        os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103
        path = os.path.join(self._folder, INDEX)  # noqa: PTH118
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        made = os.open(path, flags | os.O_CREAT | os.O_TRUNC, 0o644)
        self._file = OpenFile(made, lambda: os.open(path, flags))
        head = {
            "format": FORMAT, **self._head, "process": os.getpid(), "started_ns": time.time_ns(),
            "command": [str(one)[:200] for one in sys.argv[:50]], "options": self._asked,
            "python": sys.version.split()[0],
        }  # fmt: skip
        os.write(self._file.number, (json.dumps(head, allow_nan=False) + "\n").encode())

    def begin(self, line: str) -> None:
        """Begin a step with its first line."""
        if self._steps is None:
            self.append([line])
        else:
            self._steps.append([line])

    def write(self, lines: list[str]) -> None:
        """Write lines of the current step: into the file, or into the ring."""
        if self._steps is None:
            self.append(lines)
        elif self._steps:
            self._steps[-1].extend(lines)

    def append(self, lines: list[str]) -> None:
        """Append lines that belong into the file in any case."""
        if not lines:
            return
        self.open()
        assert self._file is not None
        data = ("\n".join(lines) + "\n").encode("utf-8", "replace")
        while data:
            data = data[os.write(self._file.number, data) :]

    def alarm(self, step: int, reason: str) -> None:
        """Write the steps that the ring holds, because a fault was seen in step `step`."""
        held = list(self._steps or ())
        if self._steps is not None:
            self._steps.clear()
        self._alarms += 1
        say(f"step {step}: {reason[:500]}; the last {len(held)} steps were written")
        for lines in held:
            self.append(lines)
        self.append([encode({"alarm": reason[:500], "step_seen": step})])
