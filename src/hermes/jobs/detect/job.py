"""Alarms of a whole job: its ranks step by step, one alarm a cause, and when it is over.

A running job and the replay of its logs go through the same code, in the order of the steps and not of arrival: so what
was said while it ran is what its logs say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hermes.inside.wire.record import AT, FLAGS
from hermes.jobs.detect.alarm import Alarm, AlarmKind, Detector
from hermes.jobs.detect.causes import Cause
from hermes.jobs.detect.explain import cause_of_alarms
from hermes.jobs.detect.read_step_logs import Steps, steps_of
from hermes.jobs.detect.straggler import Straggler, straggler
from hermes.jobs.detect.unit import DECIDED_AFTER, Row, Unit

KEPT = 2000
_TOGETHER = 10
"""Steps after the first rank's alarm in which those of other ranks are taken to be of the same cause."""
_OVERLAP = 50
_WORSE = 1.25
_STRETCH = 60
_EVERY = 20
_STEP, _WALL, _FLAGS = AT["step"], AT["wall_ns"], AT["flags"]
_ANEW = FLAGS["first"] | FLAGS["resumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is to be said of a job. `kind`: `alarm` (steps became slower), `again` (they still are, or became slower by
    less than a quarter), `recovered`, `straggler` (the others wait for a rank), `caught up` (no longer).

    `ranks` are those that it was seen on; `alarm` is that of the rank to look at first.
    """

    kind: str
    step: int
    since: int
    ranks: tuple[int, ...]
    alarm: Alarm | None = None
    cause: Cause | None = None
    late: Straggler | None = None


@dataclass(slots=True, kw_only=True)
class _Episode:
    """Steps that are slower than they were: from the first alarm until the last of its ranks has recovered."""

    alarms: list[Alarm]
    until: int
    said: Alarm | None = None
    slow: set[int] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)


class _Rank:
    """One rank: its detector, its unit, and its latest records."""

    def __init__(self, rank: int, make: Callable[[int], Detector], kept: int) -> None:
        self.rank, self._make = rank, make
        self.rows: deque[Row] = deque(maxlen=kept)
        self.about: dict[str, object] = {}
        self.detector = make(rank)
        self._unit = Unit()
        self._held: list[Row] = []

    def feed(self, row: Row) -> list[Alarm]:
        self.rows.append(row)
        if row[_FLAGS] & _ANEW and self._unit.decided:
            self._unit = Unit()
        if not self._unit.decided and self.detector.needs_work:
            self._held.append(row)
            return self.decide() if len(self._held) >= DECIDED_AFTER else []
        return self._pass_on(row)

    def decide(self) -> list[Alarm]:
        """Enough steps are known to tell what they work on, or there will be no more."""
        held, self._held = self._held, []
        if held:
            self._unit.decide(held)
        return [alarm for row in held for alarm in self._pass_on(row)]

    def _pass_on(self, row: Row) -> list[Alarm]:
        found = self.detector.feed(row[_STEP], row[_WALL], self._unit.work(row), row[_FLAGS])
        return [found] if found else []

    def steps(self) -> Steps:
        return steps_of(self.rank, list(self.rows), self.about)


class JobDetector:
    """Fed with the records of every rank as they come; gives notices in the order of steps."""

    def __init__(self, make: Callable[[int], Detector], kept: int = KEPT) -> None:
        """`kept`: records of a rank that causes are looked for in."""
        self._make, self._kept = make, kept
        self._ranks: dict[int, _Rank] = {}
        self._waiting: dict[int, deque[tuple[int, Row]]] = {}
        self._behind: dict[int, tuple[int, int]] = {}
        self._episodes: list[_Episode] = []
        self._looked = -1
        self._late: int | None = None
        self._maybe: int | None = None
        self.count = 0

    def add(self, rank: int, rows: Sequence[Row], about: dict[str, object] | None = None) -> None:
        """Records of a rank, oldest first."""
        if rank not in self._ranks:
            self._ranks[rank] = _Rank(rank, self._make, self._kept)
            self._waiting[rank] = deque()
            self._behind[rank] = (0, -1)
        if about is not None:
            self._ranks[rank].about = about
        # A job that goes back to a checkpoint counts its steps anew: what comes after is later all the same.
        turn, last = self._behind[rank]
        for row in rows:
            turn += row[_STEP] <= last
            last = row[_STEP]
            self._waiting[rank].append((turn, row))
        self._behind[rank] = (turn, last)

    @property
    def slow(self) -> bool:
        """Whether an alarm was given that is not over."""
        return any(episode.said and episode.slow for episode in self._episodes)

    def detectors(self) -> dict[int, Detector]:
        """Rank to its detector."""
        return {rank: known.detector for rank, known in self._ranks.items()}

    def steps(self) -> list[Steps]:
        """The latest steps of every rank, as far as they were looked at."""
        return [known.steps() for _, known in sorted(self._ranks.items()) if known.rows]

    def forget(self, rank: int) -> None:
        """The rank is gone; what it did counts no more."""
        for gone in (self._ranks, self._waiting, self._behind):
            gone.pop(rank, None)
        for episode in self._episodes:
            episode.slow.discard(rank)

    def notices(self, *, idle: frozenset[int] = frozenset(), end: bool = False) -> list[Notice]:
        """What the records say up to the step that all ranks have ended, but for those that are `idle`; all at the
        `end`, when nothing more comes."""
        heads = [self._behind[rank] for rank in self._waiting if rank not in idle]
        horizon = min(heads, default=max(self._behind.values(), default=(0, 0)))
        found: list[Notice] = []
        while True:
            first = min(
                ((queue[0][0], queue[0][1][_STEP], rank) for rank, queue in self._waiting.items() if queue),
                default=None,
            )
            if first is None or (not end and first[:2] > horizon):
                break
            _, row = self._waiting[first[2]].popleft()
            found += self._feed(first[2], row)
        if end:
            for rank, known in self._ranks.items():
                found += [notice for alarm in known.decide() for notice in self._alarmed(rank, alarm)]
            found += self._due(None)
        return found

    def _feed(self, rank: int, row: Row) -> list[Notice]:
        known, step = self._ranks[rank], row[_STEP]
        found = self._due(step)
        for alarm in known.feed(row):
            found += self._alarmed(rank, alarm)
        self.count += 1
        if not known.detector.slow:
            # It began anew: what it is compared with is no longer what was before.
            for episode in self._episodes:
                if rank in episode.slow and episode.said:
                    episode.slow.discard(rank)
        self._episodes = [one for one in self._episodes if one.slow or not one.said]
        if step // _EVERY != self._looked:
            self._looked = step // _EVERY
            found += self._stragglers(self._looked * _EVERY)
        return found

    def _alarmed(self, rank: int, alarm: Alarm) -> list[Notice]:
        if alarm.kind is AlarmKind.RECOVERED:
            return self._recovered(rank, alarm)
        for episode in self._episodes:
            if rank not in episode.ranks and alarm.since > episode.alarms[0].step + _OVERLAP:
                continue
            episode.slow.add(rank)
            episode.ranks.add(rank)
            if episode.said is None:
                episode.alarms.append(alarm)
                return []
            if alarm.after_ns < _WORSE * max(one.after_ns for one in episode.alarms):
                return [self._notice("again", episode, alarm)]
            episode.alarms = [alarm]
            return [self._notice("alarm", episode, alarm)]
        made = _Episode(alarms=[alarm], until=alarm.step + _TOGETHER, slow={rank}, ranks={rank})
        self._episodes.append(made)
        return self._due(None) if len(self._ranks) == 1 else []

    def _due(self, step: int | None) -> list[Notice]:
        """Episodes whose other ranks had time to be noticed."""
        found = []
        for episode in self._episodes:
            if episode.said is None and (step is None or not 0 <= episode.until - step <= _TOGETHER):
                found.append(self._notice("alarm", episode, episode.alarms[0]))
        return found

    def _notice(self, kind: str, episode: _Episode, alarm: Alarm) -> Notice:
        cause: Cause | None = None
        if kind == "alarm":
            steps = {rank: known.steps() for rank, known in self._ranks.items()}
            alarm, cause = cause_of_alarms(steps, episode.alarms if episode.said is None else [alarm])
            episode.said = alarm
        ranks = tuple(sorted(episode.ranks))
        return Notice(kind=kind, step=alarm.step, since=alarm.since, ranks=ranks, alarm=alarm, cause=cause)

    def _recovered(self, rank: int, alarm: Alarm) -> list[Notice]:
        found = []
        for episode in self._episodes:
            if rank not in episode.slow:
                continue
            episode.slow.discard(rank)
            if not episode.slow:
                found += [] if episode.said else [self._notice("alarm", episode, episode.alarms[0])]
                found.append(self._notice("recovered", episode, alarm))
        self._episodes = [one for one in self._episodes if one.slow]
        return found

    def _stragglers(self, step: int) -> list[Notice]:
        """Every twenty steps, over the last sixty: a rank that was late twice in a row is a straggler."""
        if len(self._ranks) < 2:
            return []
        stretch = [
            steps_of(rank, [row for row in list(known.rows)[-_STRETCH - _EVERY :] if row[_STEP] < step][-_STRETCH:])
            for rank, known in self._ranks.items()
        ]
        late = straggler(stretch)
        rank, before, self._maybe = (late.rank if late else None), self._maybe, (late.rank if late else None)
        if rank != before or rank == self._late:
            return []
        gone, self._late = self._late, rank
        # Late in two looks: what both have seen.
        since = step - _STRETCH
        if late is None:
            return [Notice(kind="caught up", step=step, since=max(since, 0), ranks=(gone,) if gone is not None else ())]
        return [Notice(kind="straggler", step=step, since=max(since, 0), ranks=(late.rank,), late=late)]


def replay(ranks: Sequence[Steps], make: Callable[[int], Detector]) -> list[Notice]:
    """All notices of a job whose logs are there."""
    made = JobDetector(make)
    for steps in ranks:
        made.add(steps.rank, steps.rows(), dict(steps.about))
    return made.notices(end=True)
