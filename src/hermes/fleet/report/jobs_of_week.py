"""The past of many jobs over some days: trained and lost time of each, merged from all of its hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from hermes.base.errors import Diagnostic
from hermes.jobs.api import JobDay, LateRank, PastCapture, PastJob, SlowSteps, Spent

_NAMED = 4
_WAITS = (None, Spent.COLLECTIVES, Spent.BLOCKED, Spent.STRAGGLER)
"""Causes that say only that a rank waits, and not for what."""


@dataclass(slots=True, kw_only=True)
class Trouble:
    """A period of slower steps of a job, merged from its hosts; `first` is the row that says the most about the cause.

    `lost` is the lost time by day (ns), of the host that lost the most.
    """

    first: SlowSteps
    rows: list[SlowSteps]

    @property
    def hosts(self) -> list[str]:
        """The host that names the cause, else all hosts that noticed the period, of many the first."""
        return [self.first.host] if self.first.cause not in _WAITS else sorted({row.host for row in self.rows})[:_NAMED]

    @property
    def lost(self) -> dict[int, int]:
        """The time that a slow period lost, by day (ns)."""
        days = sorted({day for row in self.rows for day in row.lost})
        return {day: max(row.lost.get(day, 0) for row in self.rows) for day in days}

    @property
    def lost_ns(self) -> int | None:
        """The lost time in all (ns); None if unknown."""
        return sum(self.lost.values()) if self.lost else None


@dataclass(slots=True, kw_only=True)
class JobWeek:
    """One job on all of its hosts, over the period of the report."""

    name: str
    hosts: tuple[str, ...]
    ranks: int
    days: list[JobDay]
    troubles: list[Trouble]
    late: list[LateRank]
    captures: list[PastCapture]

    @property
    def trained_ns(self) -> int:
        """The total time of the job's steps (ns)."""
        return sum(day.trained_ns for day in self.days)

    @property
    def lost_ns(self) -> int:
        """How many ns of the trained time were longer than usual."""
        return sum(day.lost_ns for day in self.days)


@dataclass(slots=True, kw_only=True)
class Week:
    """All jobs from one moment until another (since 1970), the job that lost the most first."""

    since_ns: int
    until_ns: int
    jobs: list[JobWeek] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    @property
    def worst(self) -> list[tuple[JobWeek, Trouble]]:
        """Troubles by cost, largest first; those of unknown cost come last."""
        found = [(job, one) for job in self.jobs for one in job.troubles]
        return sorted(found, key=lambda pair: (-(pair[1].lost_ns or -1), pair[1].first.since_ns))


def week_of(found: Iterable[PastJob | Diagnostic], since_ns: int, until_ns: int) -> Week:
    """The week, merged from the rows of run directories or of a Prometheus."""
    week, runs = Week(since_ns=since_ns, until_ns=until_ns), []
    for one in found:
        if isinstance(one, Diagnostic):
            week.notes.append(one)
        else:
            runs.append(one)
            week.notes += [Diagnostic(level="degraded", message=note) for note in one.notes]
    week.jobs = sorted(map(_job, _together(runs)), key=lambda job: (-job.lost_ns, -job.trained_ns, job.name))
    return week


def _together(runs: Sequence[PastJob]) -> list[list[PastJob]]:
    """Runs on several hosts with the same launcher name at the same time, merged into one job each."""
    made = [[one] for one in runs if not one.launch]
    named = sorted((one for one in runs if one.launch), key=lambda one: (one.launch, one.first_ns))
    for _, alike in groupby(named, key=lambda one: one.launch):
        group: list[PastJob] = []
        for one in alike:
            if group and one.first_ns > max(other.last_ns for other in group):
                made.append(group)
                group = []
            group.append(one)
        made.append(group)
    return made


def _job(runs: Sequence[PastJob]) -> JobWeek:
    troubles = _troubles([row for one in runs for row in one.slow])
    days = _days(runs)
    for day in days:
        day.lost_ns = sum(one.lost.get(day.day, 0) for one in troubles)
    return JobWeek(
        name=runs[0].launch if len(runs) > 1 else runs[0].job, hosts=tuple(sorted({one.host for one in runs})),
        ranks=sum(one.ranks for one in runs), days=days, troubles=troubles,
        late=sorted((row for one in runs for row in one.late), key=lambda row: -(row.waited_ns or 0)),
        captures=sorted((row for one in runs for row in one.captures), key=lambda row: row.at_ns),
    )  # fmt: skip


def _days(runs: Sequence[PastJob]) -> list[JobDay]:
    made: dict[int, JobDay] = {}
    for day in (day for one in runs for day in one.days.values()):
        mine = made.setdefault(day.day, JobDay(day=day.day))
        mine.steps, mine.trained_ns = max(mine.steps, day.steps), max(mine.trained_ns, day.trained_ns)
        mine.walls.take(day.walls)
    return [made[day] for day in sorted(made)]


def _troubles(rows: Sequence[SlowSteps]) -> list[Trouble]:
    """Periods that several hosts report at the same time, merged; the row that names the cause stands for the
    period."""
    made: list[Trouble] = []
    for row in sorted(rows, key=lambda row: (row.cause in _WAITS, -(row.lost_ns or 0))):
        known = next((one for one in made if _same(one, row)), None)
        if known is None:
            made.append(Trouble(first=row, rows=[row]))
        else:
            known.rows.append(row)
    return sorted(made, key=lambda one: one.first.since_ns)


def _same(one: Trouble, row: SlowSteps) -> bool:
    meets = row.since_ns < one.first.until_ns and one.first.since_ns < row.until_ns
    return meets and all(row.host != other.host for other in one.rows)
