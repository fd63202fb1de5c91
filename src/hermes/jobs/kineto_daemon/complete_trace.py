"""Completes a trace that libkineto wrote on demand: adds marks of the steps, the rank, and the trace's origin."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

from hermes.base.write_atomic import write_atomic

_HEAD = 65_536
_PIECE = 1 << 22
_TIME = rb"(\d{1,18}(?:\.\d{1,9})?)"
_STEP = re.compile(
    rb'"name": "Optimizer\.step#[^"\n]*",\s*"pid": (\d{1,10}),\s*"tid": (\d{1,10}),\s*"ts": ' + _TIME
    + rb',\s*"dur": ' + _TIME
)  # fmt: skip
_BEGIN = re.compile(rb'"name": "Iteration Start: PyTorch Profiler",[^{}]*?"ts": ' + _TIME)
_BASE = re.compile(rb'"baseTimeNanoseconds":\s*(\d{1,19})')
_EVENTS = re.compile(rb'"traceEvents":\s*\[')


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTrace:
    """A trace with step marks: the begin of each step, in nanoseconds since 1970, and the typical time of a step."""

    starts_ns: tuple[int, ...]
    step_ns: int


def is_complete(path: Path) -> bool:
    """Whether the file ends as libkineto ends a trace: libkineto writes its file piece by piece, under the final
    name."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 4096, 0))
        tail = file.read()
    return b'"traceName"' in tail and tail.rstrip().endswith(b"}")


def write_completed(
    found: Path, target: Path, *, first: int, about: Mapping[str, object], world: int | None
) -> MarkedTrace:
    """Write the completed trace to `target`, and remove libkineto's own file.

    A step ends where a step of an optimizer ends; the first step is number `first`. `about` becomes the entry `hermes`;
    with its `rank` and `world` the entry `distributedInfo` is made where there is none. Raises `ValueError` for a text
    with an unknown layout, and `OSError`.
    """
    with found.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        events, opening = _EVENTS.search(text), text.find(b"{", 0, _HEAD)
        if events is None or opening < 0:
            raise ValueError("it has no events")
        steps = _steps(text)
        base = _BASE.search(text[: events.end()])
        offset = int(base[1]) if base else 0
        with write_atomic(target, mode=0o644) as out:
            out.write(text[: opening + 1] + _header(text[: events.start()], about, world))
            _copy(text, opening + 1, events.end(), out)
            out.write(b"".join(_mark(step, first + number) for number, step in enumerate(steps)))
            _copy(text, events.end(), len(text), out)
    found.unlink(missing_ok=True)
    lengths = sorted(step.end_ns - step.start_ns for step in steps)
    return MarkedTrace(
        starts_ns=tuple(step.start_ns + offset for step in steps), step_ns=lengths[len(lengths) // 2] if steps else 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step by the clock of its trace, and the process and thread whose optimizer ended the step."""

    start_ns: int
    end_ns: int
    pid: int
    tid: int


def _steps(text: mmap.mmap) -> list[_Step]:
    """The steps of a trace: from the begin of the recording, then from the end of each optimizer step to the next.

    The last optimizer step may be unfinished for the profiler, since it ends the recording from within.
    """
    ends = sorted((_ns(at[3]) + _ns(at[4]), int(at[1]), int(at[2])) for at in _STEP.finditer(text))
    begin = _BEGIN.search(text)
    steps: list[_Step] = []
    start = _ns(begin[1]) if begin else ends[0][0] if ends else 0
    for end, pid, tid in ends:
        if end > start:
            steps.append(_Step(start_ns=start, end_ns=end, pid=pid, tid=tid))
        start = end
    return steps


def _ns(microseconds: bytes) -> int:
    """Nanoseconds of a time that libkineto wrote in microseconds with three decimals."""
    return int(Decimal(microseconds.decode("ascii")).scaleb(3))


def _mark(step: _Step, number: int) -> bytes:
    took = step.end_ns - step.start_ns
    return (
        f'\n  {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "pid": {step.pid}, '
        f'"tid": {step.tid}, "ts": {step.start_ns // 1000}.{step.start_ns % 1000:03}, '
        f'"dur": {took // 1000}.{took % 1000:03}, "args": {{}}}},'
    ).encode()


def _header(head: bytes, about: Mapping[str, object], world: int | None) -> bytes:
    entries: dict[str, object] = {"hermes": dict(about)}
    if world and world > 1 and b'"distributedInfo"' not in head:
        entries["distributedInfo"] = {"rank": about["rank"], "world_size": world}
    return "".join(f"\n  {json.dumps(name)}: {json.dumps(value)}," for name, value in entries.items()).encode()


def _copy(text: mmap.mmap, begin: int, end: int, out: BinaryIO) -> None:
    for at in range(begin, end, _PIECE):
        out.write(text[at : min(at + _PIECE, end)])
