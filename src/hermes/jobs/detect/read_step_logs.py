"""Reads the steps of one rank as columns, from step logs of Hermes, torch_npu and MindSpore."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hermes.base.errors import InputError, TraceFormatError
from hermes.base.units import whole_number
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.step_record import AT, FIELDS, FLAGS, NULL
from hermes.inside.wire.steplog import is_log, read_about, read_rows
from hermes.jobs.detect.messages import LOGS_KNOWN, NAME_A_LOG, NO_LOG, NO_LOGS, NO_WALL, NOT_A_LOG, quoted

Floats = npt.NDArray[np.float64]
_PERF_DUMP = re.compile(rb"\[?STEPTIME\]?:\s*(\d{1,18}),(\d{1,18})\s*")
_LONGEST_LINE = 65_536
_ROTATED = re.compile(r".+\.log\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of one rank, oldest first: one column for each field of `hermes.inside.wire.step_record`, with `NULL`
    values.

    `damaged` counts unreadable records; `about` is the description in the rank's log.
    """

    rank: int
    columns: Mapping[str, npt.NDArray[np.int64]]
    about: Mapping[str, object] = field(default_factory=dict)
    damaged: int = 0

    def __len__(self) -> int:
        return len(self.columns["step"])

    def of(self, name: str) -> Floats:
        """A column as floats, NaN where the value was not measured."""
        column = self.columns[name]
        return np.where(column == NULL, np.nan, column.astype(np.float64))

    def flagged(self, *names: str) -> npt.NDArray[np.bool_]:
        """Which steps carry one of these flags."""
        mask = sum(FLAGS[name] for name in names)
        found: npt.NDArray[np.bool_] = (self.columns["flags"] & mask) != 0
        return found

    def loader_work(self) -> float:
        """Nanoseconds that the stepping thread itself worked in data loaders, as part of the sum of `data_ns`.

        The thread's own work is measured now and then: waits without a measurement are assumed to be alike.
        """
        waits, own = self.of("data_ns"), self.of("data_cpu_ns")
        asked = float(np.nansum(waits[~np.isnan(own)]))
        return min(float(np.nansum(own)) / asked, 1.0) * float(np.nansum(waits)) if asked else 0.0

    def rows(self) -> list[tuple[int, ...]]:
        """The records, one tuple of all fields each."""
        return list(zip(*(self.columns[name].tolist() for name in FIELDS), strict=True))

    def part(self, first: int, end: int) -> Steps:
        """The records from `first` up to, not including, `end`."""
        cut = {name: column[first:end] for name, column in self.columns.items()}
        return Steps(rank=self.rank, columns=cut, about=self.about, damaged=self.damaged)


def steps_of(rank: int, rows: Sequence[Sequence[int]], about: Mapping[str, object] | None = None) -> Steps:
    """The columns of a rank's steps, made of unpacked records."""
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(FIELDS))
    return Steps(rank=rank, columns={name: table[:, place] for name, place in AT.items()}, about=about or {})


def from_walls(walls_ns: Iterable[float], *, rank: int = 0, **columns: Iterable[int]) -> Steps:
    """Steps with known durations and only the given columns."""
    walls = np.asarray(list(walls_ns), dtype=np.int64)
    made = {name: np.full(len(walls), NULL, dtype=np.int64) for name in FIELDS}
    made |= {"wall_ns": walls, "step": np.arange(len(walls)), "flags": np.zeros(len(walls), dtype=np.int64)}
    made |= {name: np.asarray(list(column), dtype=np.int64) for name, column in columns.items()}
    return Steps(rank=rank, columns=made)


def read_steps(path: Path) -> list[Steps]:
    """The steps in a log, or in every log of a run directory; one entry for each rank.

    A rank that was killed before it had written a record left an empty file, and is skipped. Readable are step logs of
    Hermes, `perf_*.log` of torch_npu and MindSpore (`PERF_DUMP_PATH`; with the rotated files beside it), and lines of
    JSON with `wall_ns` or `wall_ms`. Raises `HermesError` for other files.
    """
    if path.is_dir():
        ours = sorted(log for log in path.glob("steps-rank*.log") if log.stat().st_size)
        files = ours or sorted(path.glob("perf_*.log"))
        if not files:
            raise InputError(NO_LOGS, where=str(path), hint=NAME_A_LOG)
        return sorted((_read(file) for file in files), key=lambda steps: steps.rank)
    if not path.is_file():
        raise InputError(NO_LOG, where=str(path))
    return [_read(path)]


def _read(path: Path) -> Steps:
    if is_log(path):
        return _read_ours(path)
    with path.open("rb") as file:
        head = file.read(4096)
    if _PERF_DUMP.match(head):
        return _read_perf_dump(path)
    if head.lstrip().startswith(b"{"):
        return _read_lines(path)
    raise TraceFormatError(path, NOT_A_LOG, hint=LOGS_KNOWN)


def _read_ours(path: Path) -> Steps:
    try:
        about = read_about(path)
        older = path.with_name(path.name + ".1")
        raw = [row for file in (older, path) if file.exists() for row in read_rows(file)]
    except LiveError as damaged:
        raise TraceFormatError(path, quoted(text=str(damaged))) from damaged
    rank = about.get("rank")
    rows = [row for row in raw if row]
    made = steps_of(rank if isinstance(rank, int) else 0, rows, about)
    return Steps(rank=made.rank, columns=made.columns, about=about, damaged=len(raw) - len(rows))


def _read_perf_dump(path: Path) -> Steps:
    """Start and end of each step in whole milliseconds; the device number in the file's name stands for the rank."""
    older = sorted((file for file in path.parent.glob(path.name + ".*") if _ROTATED.fullmatch(file.name)), reverse=True)
    times, damaged = [], 0
    for file in (*older, path):
        for line in file.read_bytes().splitlines():
            match = _PERF_DUMP.fullmatch(line)
            if match and int(match[1]) <= int(match[2]):
                times.append((int(match[1]), int(match[2])))
            elif line.strip():
                damaged += 1
    device = path.stem.rpartition("_")[2]
    ends = np.array([end * 1_000_000 for _, end in times], dtype=np.int64)
    walls = [(end - start) * 1_000_000 for start, end in times]
    made = from_walls(walls, rank=whole_number(device) or 0, end_ns=ends)
    return Steps(rank=made.rank, columns=made.columns, damaged=damaged)


def _read_lines(path: Path) -> Steps:
    rows: list[list[int]] = []
    damaged = 0
    for line in path.read_bytes().splitlines():
        try:
            rows.append(_of_line(line, len(rows)))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            damaged += 1
    if not rows:
        raise TraceFormatError(path, NO_WALL)
    made = steps_of(0, rows)
    return Steps(rank=0, columns=made.columns, damaged=damaged)


def _of_line(line: bytes, number: int) -> list[int]:
    raw = json.loads(line[:_LONGEST_LINE])
    if not isinstance(raw, dict):
        raise TypeError
    wall = int(raw["wall_ns"] if "wall_ns" in raw else raw["wall_ms"] * 1_000_000)
    named = {name: int(raw[name]) for name in FIELDS if isinstance(raw.get(name), (int, float))}
    values = dict.fromkeys(FIELDS, NULL) | {"step": number, "flags": 0} | named | {"wall_ns": wall}
    if not all(NULL <= value < 1 << 63 for value in values.values()) or wall < 0:
        raise ValueError
    return list(values.values())
