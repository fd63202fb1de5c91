"""Reads the step logs of a run directory as columns, for past jobs: bounded, and checked record by record."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.shared_memory_file import HEADER, parse_header
from hermes.inside.wire.step_record import AT, BODY, FIELDS, SIZE
from hermes.inside.wire.steplog import LARGEST, MAGIC
from hermes.jobs.detect.step_time_unit import LEFT_OUT
from hermes.jobs.past_job_rows import DAY_NS
from hermes.jobs.run_directory_files import content

Longs = npt.NDArray[np.int64]
_MOST_BYTES = 2 * LARGEST
_LONGEST_NS = 30 * DAY_NS
_COLUMNS = ("step", "end_ns", "wall_ns", "flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRank:
    """The steps of one rank that ended in a window of time, and how many of all its records exist and are damaged.

    `cut`: older steps existed, and are no longer kept.
    """

    about: Mapping[str, object]
    step: Longs
    end_ns: Longs
    wall_ns: Longs
    usual: npt.NDArray[np.bool_]
    records: int
    damaged: int
    cut: bool

    def begin_of(self, step: int, before_ns: int) -> int | None:
        """The begin of the last step `step` that ended before `before_ns`; None without such a step."""
        at = np.flatnonzero((self.step == step) & (self.end_ns <= before_ns))
        return int(self.end_ns[at[-1]] - self.wall_ns[at[-1]]) if len(at) else None

    def longer(self, since_ns: int, until_ns: int, usual_ns: int, apart: npt.NDArray[np.bool_]) -> dict[int, int]:
        """Extra time in ns of the steps in a stretch of time, by day, without the steps marked in `apart`."""
        mine = (self.end_ns > since_ns) & (self.end_ns <= until_ns) & self.usual & ~apart
        return by_day(self.end_ns[mine], self.wall_ns[mine] - usual_ns)


def by_day(end_ns: Longs, values: Longs) -> dict[int, int]:
    """The positive sums of values, by day."""
    days = end_ns // DAY_NS
    found = {int(day): int(values[days == day].sum()) for day in np.unique(days)}
    return {day: value for day, value in found.items() if value > 0}


def read_step_log(path: Path, since_ns: int, until_ns: int) -> LoggedRank | None:
    """The log of a rank, with the older log that was set aside; None where neither can be read."""
    parts = [_records(place) for place in (path.with_name(path.name + ".1"), path)]
    found = [one for one in parts if one is not None]
    if not found:
        return None
    about = found[-1][0]
    rows = np.concatenate([rows for _, rows, _ in found])
    columns = {name: rows[:, AT[name]] for name in _COLUMNS}
    wall, end = columns["wall_ns"], columns["end_ns"]
    kept = (end > since_ns) & (end <= until_ns) & (wall >= 0) & (wall < _LONGEST_NS)
    step, end, wall, flags = (columns[name][kept] for name in _COLUMNS)
    cut = bool(len(rows) and rows[0, AT["index"]] > 1 and kept[0])
    return LoggedRank(
        about=about, step=step, end_ns=end, wall_ns=wall, usual=(flags & LEFT_OUT) == 0,
        records=len(rows), damaged=sum(damaged for _, _, damaged in found), cut=cut,
    )  # fmt: skip


def _records(path: Path) -> tuple[dict[str, object], Longs, int] | None:
    raw = content(path, _MOST_BYTES)
    if raw is None:
        return None
    try:
        about = parse_header(raw[:HEADER], MAGIC, str(path))[1]
    except LiveError:
        return None
    body = memoryview(raw)[HEADER : HEADER + (len(raw) - HEADER) // SIZE * SIZE]
    rows: Longs = np.frombuffer(body, dtype="<i8").reshape(-1, len(FIELDS))
    checks = np.fromiter(
        (zlib.crc32(body[at : at + BODY.size]) for at in range(0, len(body), SIZE)), dtype=np.int64, count=len(rows)
    )
    good = checks == rows[:, AT["check"]]
    return about, rows[good], int(len(rows) - good.sum())
