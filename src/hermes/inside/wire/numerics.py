"""Spent and gradients of a rank as its training goes on: a line now and then in a file, and what counts as wrong.

A number is compared with those of the last looks by their median and the median distance from it, which a single jump
does not move. Nothing is said of the first looks, in which a training finds its way.
"""

from __future__ import annotations

import collections
import contextlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LARGEST = 8 << 20
"""Bytes of a file before it is set aside as `….1`, over the one set aside before."""
_LONGEST_LINE = 1000
_LAST = 50
"""Looks that are looked back on."""
_FIRST = 10
"""Looks before the first alarm but for NaN."""
_FAR = 10.0
"""Median distances from the median that are an outlier: about seven standard deviations of a normal one."""
_SPIKE = 0.5
"""A loss jumps when it rises by this share of its median too: some losses hardly move at all."""
_TIMES = 100.0
"""A norm explodes or vanishes when it is so many times that of before."""
KINDS = ("not finite", "loss", "explode", "vanish", "updates")


class Look:
    """What one look at a training found; None is not known, NaN and infinity are themselves."""

    __slots__ = ("broken", "loss", "norm", "step", "update")

    def __init__(
        self, step: int, *, loss: float | None = None, norm: float | None = None, update: float | None = None,
        broken: int = 0,
    ) -> None:  # fmt: skip
        self.step = step
        self.loss = loss
        self.norm = norm
        """Of the gradients that are looked at: all, or a part of fixed size of a large model."""
        self.update = update
        """Norm of what the optimizer changed, of the norm of what it changed."""
        self.broken = broken
        """Gradients, as tensors, with a NaN or an infinity."""

    def line(self) -> bytes:
        """As it stands in the file."""
        facts = {"step": self.step, "loss": _strict(self.loss), "norm": _strict(self.norm),
                 "update": _strict(self.update), "broken": self.broken}  # fmt: skip
        return (json.dumps(facts, allow_nan=False) + "\n").encode()


def parse(line: bytes) -> Look | None:
    """A line of the file; None for what is none."""
    try:
        found = json.loads(line) if len(line) < _LONGEST_LINE else None
        if not isinstance(found, dict) or type(found.get("step")) is not int or found["step"] < 0:
            return None
        broken = found.get("broken")
        return Look(found["step"], loss=_number(found.get("loss")), norm=_number(found.get("norm")),
                    update=_number(found.get("update")), broken=broken if type(broken) is int else 0)  # fmt: skip
    except (ValueError, RecursionError):
        return None


def _strict(number: float | None) -> float | str | None:
    if number is None or math.isfinite(number):
        return None if number is None else float(f"{number:.7g}")
    return str(number)


def _number(found: object) -> float | None:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return float(found)
    return float(found) if found in ("nan", "inf", "-inf") else None


def path_in(folder: Path, rank: int) -> Path:
    """The file of a rank in the run directory."""
    return folder / f"numerics-rank{rank}.jsonl"


def append(path: Path, lines: bytes) -> None:
    """Append whole lines; a file that grew too large makes room once, by renaming. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, lines)
        full = os.fstat(descriptor).st_size > LARGEST
    finally:
        os.close(descriptor)
    if full:
        path.replace(path.with_name(path.name + ".1"))


class Follower:
    """Reads what is new in the file of a rank."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._inode = 0
        self._rest = b""

    def new(self) -> list[Look]:
        """Looks since the last call; of a file that was set aside in between, the rest first."""
        found: list[Look] = []
        with contextlib.suppress(OSError):
            now = os.lstat(self._path).st_ino
            if self._inode and now != self._inode:
                found += self._read(self._path.with_name(self._path.name + ".1"))
                self._at, self._rest = 0, b""
            self._inode = now
        return found + self._read(self._path)

    def _read(self, path: Path) -> list[Look]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            data = os.pread(descriptor, 2 * LARGEST, self._at)
        except OSError:
            data = b""
        finally:
            os.close(descriptor)
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:_LONGEST_LINE]
        return [one for line in lines if (one := parse(line)) is not None]


class Fault(NamedTuple):
    """What is wrong with a look: its kind, of `KINDS`, in words, and what its number usually is, 0 if unknown."""

    kind: str
    text: str
    usual: float


class Numbers:
    """One training. `wrong` gets a look and says what is wrong with it, or nothing."""

    def __init__(self) -> None:
        self._losses: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._norms: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._updates: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._broken = False

    def wrong(self, look: Look, because: str = "") -> Fault | None:
        """A NaN is told of once, until it is gone. `because` says what is not finite, where somebody knows better."""
        if not because and look.loss is not None and not math.isfinite(look.loss):
            because = f"the loss is {look.loss}"
        if not because and (look.broken or (look.norm is not None and not math.isfinite(look.norm))):
            many = f"{look.broken} gradients hold" if look.broken > 1 else "a gradient holds"
            because = f"{many} NaN or infinity"
        before, self._broken = self._broken, bool(because)
        if because:
            return None if before else Fault("not finite", because, 0.0)
        return self._finite(look)

    def _finite(self, look: Look) -> Fault | None:
        found: Fault | None = None
        if look.loss is not None:
            found = _spike(self._losses, look.loss)
            self._losses.append(look.loss)
        if look.norm is not None:
            found = found or _other_size(self._norms, look.norm)
            self._norms.append(look.norm)
        if look.update is not None and math.isfinite(look.update):
            # A rate that ends at nothing is part of many schedules; one that grows a hundredfold at once is of none.
            other = _other_size(self._updates, look.update)
            if found is None and other is not None and other.kind == "explode":
                usual = other.usual
                text = f"a step changes parameters by {look.update:.2g} of their norm, before by about {usual:.2g}"
                found = Fault("updates", text, usual)
            self._updates.append(look.update)
        return found


def _spike(before: collections.deque[float], loss: float) -> Fault | None:
    if len(before) < _FIRST:
        return None
    middle = _median(before)
    spread = _median([abs(one - middle) for one in before])
    if loss - middle > max(_FAR * spread, _SPIKE * abs(middle)) and loss > max(before):
        return Fault("loss", f"the loss jumped to {loss:.4g} from about {middle:.4g}", middle)
    return None


def _other_size(before: collections.deque[float], norm: float) -> Fault | None:
    if len(before) < _FIRST:
        return None
    middle = _median(before)
    if middle > 0 and norm > _TIMES * middle and norm > _TIMES / 10 * max(before):
        return Fault("explode", f"gradients explode: their norm is {norm:.3g}, it was about {middle:.3g}", middle)
    if middle > 0 and norm < middle / _TIMES and norm < min(before) / (_TIMES / 10):
        return Fault("vanish", f"gradients vanish: their norm is {norm:.3g}, it was about {middle:.3g}", middle)
    return None


def _median(values: Sequence[float]) -> float:
    """As `statistics.median`, which torch does not load: a job may have a file of that name."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
