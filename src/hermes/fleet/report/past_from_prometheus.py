"""Reads the past of jobs from a Prometheus that scrapes the exporters: coarser than run directories, but of all hosts.

A point stands for the time until the next point. Step times of a point are medians, so single long steps do not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from hermes.fleet.job.ask_prometheus import Series, query, query_range
from hermes.jobs.api import DAY_NS, CaptureHow, JobDay, LateRank, PastCapture, PastJob, SlowSteps
from hermes.model.leaf import Risk

_POINTS = 2_000
LATE_S = 60.0
"""Seconds that a rank must keep the others waiting before it counts, as before the alert fires."""
_MOST_CAPTURES = 100
_NS = 1_000_000_000
_OWN = "(hermes_step_own_seconds * on (instance, job_name) group_left (launch) hermes_job_info)"
_HALF = f"quantile by (launch) (0.5, {_OWN})"
LATE = (
    f"(({_OWN} - on (launch) group_left () {_HALF}) / on (instance, job_name, rank) hermes_step_seconds > 0.1)"
    f" and on (instance, job_name, rank) ({_OWN} > on (launch) group_left () 1.15 * {_HALF})"
)
"""The Prometheus query for the part of a step that the others wait for a rank, as in the alert for a straggler."""
_BY_JOB = {
    "step": "max by (instance, job_name) (hermes_step)",
    "ranks": "count by (instance, job_name) (hermes_step)",
    "seconds": "quantile by (instance, job_name) (0.5, hermes_step_seconds)",
    "baseline": "quantile by (instance, job_name) (0.5, hermes_step_baseline_seconds)",
    "slow": "max by (instance, job_name) (hermes_job_slow) == 1",
    "still": 'max by (instance, job_name) (hermes_job_state{hermes_job_state="no progress"}) == 1',
}


def past_jobs(address: str, since_ns: int, until_ns: int, within_s: float) -> Iterator[PastJob]:
    """The jobs that a Prometheus saw in a window of time. Raises `HermesError` if it does not answer as a
    Prometheus."""
    since_s, until_s = since_ns / _NS, until_ns / _NS
    every = max(-(-round(until_s - since_s) // _POINTS), 1)

    def asked(what: str) -> list[Series]:
        return query_range(address, what, within_s, since_s=since_s, until_s=until_s, every_s=every)

    jobs: dict[tuple[str, str], _Job] = {}
    for name, what in _BY_JOB.items():
        for one in asked(what):
            jobs.setdefault((one.host, one.job), _Job(every)).lines[name] = one.points
    for one in asked(LATE):
        jobs.setdefault((one.host, one.job), _Job(every)).late[_rank(one.labels)] = one.points
    for one in asked("max by (instance, job_name, how) (hermes_job_captures_total)"):
        jobs.setdefault((one.host, one.job), _Job(every)).captures[one.labels.get("how", "")] = one.points
    launches = {
        (one.host, one.job): one.labels.get("launch", "")[:120]
        for one in query(address, f"last_over_time(hermes_job_info[{round(until_s - since_s)}s])", within_s, until_s)
    }
    for (host, job), seen in sorted(jobs.items()):
        if seen.lines.get("step"):
            yield seen.past(host, job, launches.get((host, job), ""))


def _rank(labels: Mapping[str, str]) -> int:
    rank = labels.get("rank", "")
    return int(rank) if rank.isdecimal() and rank.isascii() and len(rank) < 10 else -1


Points = Sequence[tuple[float, float]]


@dataclass(slots=True)
class _Job:
    """One job's series from one exporter, a point every `every` seconds."""

    every: int
    lines: dict[str, Points] = field(default_factory=dict)
    late: dict[int, Points] = field(default_factory=dict)
    captures: dict[str, Points] = field(default_factory=dict)

    def past(self, host: str, job: str, launch: str) -> PastJob:
        """The past of the job, in the same form as from a run directory."""
        steps = self.lines["step"]
        return PastJob(
            job=job, launch="" if launch == job else launch, host=host,
            ranks=round(max((value for _, value in self.lines.get("ranks", ())), default=0.0)),
            first_ns=_ns(steps[0][0]), last_ns=_ns(steps[-1][0]), days=self._days(), slow=list(self._slow(host)),
            late=list(self._stragglers(host)), captures=list(self._captured(host)),
        )  # fmt: skip

    def _days(self) -> dict[int, JobDay]:
        made: dict[int, JobDay] = {}
        steps, seconds = self.lines["step"], dict(self.lines.get("seconds", ()))
        for (_, before), (at, step) in pairwise(steps):
            day = made.setdefault(_day(at), JobDay(day=_day(at)))
            if step > before:
                day.steps += round(step - before)
                day.trained_ns += _ns((step - before) * seconds.get(at, 0.0))
        for at, each in seconds.items():
            made.setdefault(_day(at), JobDay(day=_day(at))).walls.add(np.array([_ns(each)], dtype=np.int64))
        return made

    def _slow(self, host: str) -> Iterator[SlowSteps]:
        seconds, usual = dict(self.lines.get("seconds", ())), dict(self.lines.get("baseline", ()))
        for stretch in self._stretches(self.lines.get("slow", ())):
            lost: dict[int, int] = {}
            for at, _ in stretch:
                now, before = seconds.get(at, 0.0), usual.get(at, 0.0)
                if now > before > 0:
                    lost[_day(at)] = lost.get(_day(at), 0) + round(self.every * _NS * (1 - before / now))
            yield self._row(Risk.SLOWER, host, stretch, lost, usual.get(stretch[0][0]), seconds.get(stretch[-1][0]))
        for stretch in self._stretches(self.lines.get("still", ())):
            days = [_day(at) for at, _ in stretch]
            lost = {day: days.count(day) * self.every * _NS for day in sorted({*days})}
            yield self._row(Risk.STALL, host, stretch, lost, None, None)

    def _row(
        self, kind: Risk, host: str, stretch: Points, lost: dict[int, int], before: float | None, after: float | None
    ) -> SlowSteps:  # fmt: skip
        end = stretch[-1][0] + self.every
        return SlowSteps(
            kind=kind, host=host, ranks=(), since_ns=_ns(stretch[0][0]), until_ns=_ns(end), said="", lost=lost,
            over=self.lines["step"][-1][0] >= end, before_ns=None if before is None else _ns(before),
            after_ns=None if after is None else _ns(after),
        )  # fmt: skip

    def _stragglers(self, host: str) -> Iterator[LateRank]:
        for rank, points in self.late.items():
            for stretch in self._stretches(points, LATE_S) if rank >= 0 else ():
                waited = sum(min(part, 1.0) for _, part in stretch) * self.every
                yield LateRank(
                    host=host, rank=rank, since_ns=_ns(stretch[0][0]), until_ns=_ns(stretch[-1][0] + self.every),
                    own_ns=None, others_ns=None, waited_ns=_ns(waited),
                )  # fmt: skip

    def _captured(self, host: str) -> Iterator[PastCapture]:
        for how, points in self.captures.items():
            for (_, before), (at, count) in pairwise(points) if how in [*CaptureHow] else ():
                for _ in range(min(round(count - before), _MOST_CAPTURES)):
                    yield PastCapture(host=host, at_ns=_ns(at), how=CaptureHow(how))

    def _stretches(self, points: Points, least_s: float = 0.0) -> Iterator[Points]:
        """Stretches of points that follow each other without a gap, for at least `least_s` seconds."""
        first = 0
        for at in range(1, len(points) + 1):
            if at == len(points) or points[at][0] - points[at - 1][0] > 1.5 * self.every:
                if (at - first) * self.every >= least_s:
                    yield points[first:at]
                first = at


def _ns(seconds: float) -> int:
    return round(min(max(seconds, 0.0), 9e9) * _NS)


def _day(at_s: float) -> int:
    return _ns(at_s) // DAY_NS
