"""Names the straggler of each job and the jobs that are stalled, from the ranks of all hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hermes.fleet.job.parse_host_answers import RankRow
from hermes.jobs.api import ALARM

_MORE = 1.10
_WAITS = 0.05
_SPREADS = 5.0
_SIGMA = 1.4826
"""Factor from median absolute deviations to standard deviations of a normal distribution."""
_LEAST_RANKS = 2
_CLOCK_NS, _LEAST_CLOCKS = 1_000_000_000, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A straggler: the rank with the most time of its own in a step; the median of the others has `others_ns`."""

    row: RankRow
    own_ns: int
    others_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A standstill: no rank of a job has ended a step for `still_ns`. `gone` ranks have ended, `behind` are on an
    earlier step."""

    name: str
    still_ns: int
    step: int
    gone: tuple[RankRow, ...]
    behind: tuple[RankRow, ...]


def straggler(ranks: Sequence[RankRow]) -> Straggler | None:
    """The rank that the others of one job wait for; None without one, or where own times were not measured.

    As on one host, the straggler's own time must be 1.1 times the median of the others' and a twentieth of a step more.
    Here means of a hundred steps are compared and no single steps, so the own time must also exceed five deviations of
    the others.
    """
    known = [(row.own_ns, row) for row in ranks if row.own_ns is not None and row.alive]
    if len(known) < _LEAST_RANKS:
        return None
    known.sort(key=lambda pair: pair[0])
    most, worst = known[-1]
    others = [own for own, _ in known[:-1]]
    usual = median(others)
    spread = _SIGMA * median(abs(own - usual) for own in others)
    walls = [row.step_ns for _, row in known if row.step_ns]
    more = most - usual
    if not walls or most < _MORE * usual or more < _WAITS * median(walls) or more < _SPREADS * spread:
        return None
    return Straggler(row=worst, own_ns=most, others_ns=round(usual))


def stall(name: str, ranks: Sequence[RankRow]) -> Stall | None:
    """The standstill of a job; None while a rank ends steps. A rank must be still for as long as for an alarm on one
    host."""
    if not ranks or not any(row.alive for row in ranks):
        return None
    if not all(ALARM.over(row.age_ns, row.step_ns, row.longest_ns) for row in ranks):
        return None
    still = min(row.age_ns or 0 for row in ranks)
    last = max(row.step for row in ranks)
    return Stall(
        name=name, still_ns=still, step=last, gone=tuple(row for row in ranks if not row.alive),
        behind=tuple(row for row in ranks if row.alive and row.step < last),
    )  # fmt: skip


def wrong_clocks(clocks: Mapping[str, tuple[int, int]]) -> list[tuple[str, int]]:
    """Hosts whose clock differs from most others by at least a second, and the least difference (ns, ahead is
    positive)."""
    if len(clocks) < _LEAST_CLOCKS:
        return []
    usual = median((low + high) // 2 for low, high in clocks.values())
    least = {host: low - usual if low > usual else high - usual if high < usual else 0
             for host, (low, high) in clocks.items()}  # fmt: skip
    return [(host, round(off)) for host, off in sorted(least.items()) if abs(off) >= _CLOCK_NS]


def slowest_first(ranks: Sequence[RankRow]) -> list[RankRow]:
    """Ranks by own time, slowest first; by step time where own time was not measured."""
    return sorted(ranks, key=lambda row: (-(row.own_ns or -1), -(row.step_ns or 0), row.name, row.rank))


def by_job(ranks: Sequence[RankRow]) -> Iterator[tuple[str, list[RankRow]]]:
    """The ranks of each job, by its name."""
    names = dict.fromkeys(row.name for row in ranks)
    rows: dict[str, list[RankRow]] = {name: [] for name in names}
    for row in ranks:
        rows[row.name].append(row)
    yield from rows.items()
