"""Stores loss and gradients of a rank during training, a line now and then in a file, and finds wrong values.

A number is compared with the numbers of the last looks by their median and the median distance from it, which a single
jump does not move. The first looks raise no alarm, because a training still settles then.
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
"""Bytes of a file before it is set aside as `….1`, over the file set aside before."""
_LONGEST_LINE = 1000
_LAST = 50
"""Number of last looks that a look is compared with."""
_FIRST = 10
"""Looks before the first alarm, except for NaN."""
_FAR = 10.0
"""Median distances from the median that make an outlier: about seven standard deviations of a normal distribution."""
_SPIKE = 0.5
"""A loss jumps when it also rises by this share of its median: some losses hardly move at all."""
_TIMES = 100.0
"""A norm explodes or vanishes when it is this many times the earlier norms, or this many times smaller."""
KINDS = ("not finite", "loss", "explode", "vanish", "updates")


class NumericsLook:
    """The numbers of one look at a training; None is unknown, NaN and infinity stay as they are."""

    __slots__ = ("broken", "loss", "norm", "step", "update")

    def __init__(
        self, step: int, *, loss: float | None = None, norm: float | None = None, update: float | None = None,
        broken: int = 0,
    ) -> None:  # fmt: skip
        self.step = step
        self.loss = loss
        self.norm = norm
        """Norm of the gradients that are read: of all gradients, or of a part of fixed size for a large model."""
        self.update = update
        """Norm of the optimizer's update, over the norm of the updated parameters."""
        self.broken = broken
        """Number of gradient tensors with a NaN or an infinity."""

    def line(self) -> bytes:
        """The line of the file that holds these values."""
        facts = {"step": self.step, "loss": _strict(self.loss), "norm": _strict(self.norm),
                 "update": _strict(self.update), "broken": self.broken}  # fmt: skip
        return (json.dumps(facts, allow_nan=False) + "\n").encode()


def parse(line: bytes) -> NumericsLook | None:
    """The look in a line of the file; None for an invalid line."""
    try:
        found = json.loads(line) if len(line) < _LONGEST_LINE else None
        if not isinstance(found, dict) or type(found.get("step")) is not int or found["step"] < 0:
            return None
        broken = found.get("broken")
        return NumericsLook(found["step"], loss=_number(found.get("loss")), norm=_number(found.get("norm")),
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
    """The path of a rank's file in the run directory."""
    return folder / f"numerics-rank{rank}.jsonl"


def append(path: Path, lines: bytes) -> None:
    """Append whole lines; a file that grew too large is set aside once, by renaming. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, lines)
        full = os.fstat(descriptor).st_size > LARGEST
    finally:
        os.close(descriptor)
    if full:
        path.replace(path.with_name(path.name + ".1"))


class Follower:
    """A reader of the new lines in a rank's file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._inode = 0
        self._rest = b""

    def new(self) -> list[NumericsLook]:
        """Looks since the last call; if the file was set aside in between, its remaining looks come first."""
        found: list[NumericsLook] = []
        with contextlib.suppress(OSError):
            now = os.lstat(self._path).st_ino
            if self._inode and now != self._inode:
                found += self._read(self._path.with_name(self._path.name + ".1"))
                self._at, self._rest = 0, b""
            self._inode = now
        return found + self._read(self._path)

    def _read(self, path: Path) -> list[NumericsLook]:
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
    """A fault in a look: its kind, of `KINDS`, a text, and the usual value of the faulty number, 0 if unknown."""

    kind: str
    text: str
    usual: float


class Numbers:
    """The past numbers of one training. `wrong` gets a look and returns its fault, or None."""

    def __init__(self) -> None:
        self._losses: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._norms: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._updates: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._broken = False

    def wrong(self, look: NumericsLook, because: str = "") -> Fault | None:
        """The fault of a look, or None. A NaN is reported once, until it is gone. `because` says what is not finite, if
        known."""
        if not because and look.loss is not None and not math.isfinite(look.loss):
            because = f"the loss is {look.loss}"
        if not because and (look.broken or (look.norm is not None and not math.isfinite(look.norm))):
            many = f"{look.broken} gradients hold" if look.broken > 1 else "a gradient holds"
            because = f"{many} NaN or infinity"
        before, self._broken = self._broken, bool(because)
        if because:
            return None if before else Fault("not finite", because, 0.0)
        return self._finite(look)

    def _finite(self, look: NumericsLook) -> Fault | None:
        found: Fault | None = None
        if look.loss is not None:
            found = _spike(self._losses, look.loss)
            self._losses.append(look.loss)
        if look.norm is not None:
            found = found or _other_size(self._norms, look.norm)
            self._norms.append(look.norm)
        if look.update is not None and math.isfinite(look.update):
            # A learning rate that ends at zero is part of many schedules; no schedule grows it a hundredfold at once.
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
    """The same as `statistics.median`, whose module torch does not load: a job may have a file of that name."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
