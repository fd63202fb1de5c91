"""Detects alarms of a whole job from the steps of its ranks: one alarm for each cause, and its end.

A running job and the replay of its logs use the same code, in the order of the steps and not of arrival. So the replay
gives the same alarms as the running job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hermes.base.message import Message
from hermes.inside.wire.step_record import AT, FLAGS
from hermes.jobs.detect.alarm import Alarm, AlarmKind, Detector
from hermes.jobs.detect.causes import Cause
from hermes.jobs.detect.changed_step_parts import ChangedSteps
from hermes.jobs.detect.explain_alarm import cause_of_alarms, changed_since
from hermes.jobs.detect.lost_time import Ledger, LostTime
from hermes.jobs.detect.messages import UNTOLD_DEVICE
from hermes.jobs.detect.read_step_logs import Steps, steps_of
from hermes.jobs.detect.step_time_unit import DECIDED_AFTER, Row, StepTimeUnit
from hermes.jobs.detect.straggler import Straggler, straggler, untold

KEPT = 2000
_TOGETHER = 10
"""Steps after the first rank's alarm in which alarms of other ranks count as the same cause."""
_OVERLAP = 50
_WORSE = 1.25
_STRETCHES = (60, 120)
"""Numbers of steps over which ranks are compared: where a noisy host hides a straggler in few steps, more may show
it."""
_EVERY = 20
_STEP, _WALL, _FLAGS = AT["step"], AT["wall_ns"], AT["flags"]
_ANEW = FLAGS["first"] | FLAGS["resumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A report about a job. `kind`: `alarm` (steps became slower), `again` (steps are still slow, or became slower by
    less than a quarter), `recovered`, `straggler` (the others wait for a rank), `caught up` (the others no longer
    wait), or `untold`. In `untold`, ranks wait, and the log cannot tell for whom (`why`).

    `ranks` showed the alarm; `alarm` belongs to the rank to look at first.
    """

    kind: str
    step: int
    since: int
    ranks: tuple[int, ...]
    alarm: Alarm | None = None
    cause: Cause | None = None
    changed: ChangedSteps | None = None
    late: Straggler | None = None
    lost: LostTime | None = None
    why: Message | None = None


@dataclass(slots=True, kw_only=True)
class _Episode:
    """A period of slower steps: from the first alarm until the last of its ranks has recovered."""

    alarms: list[Alarm]
    until: int
    said: Alarm | None = None
    cause: Cause | None = None
    slow: set[int] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)


class _Rank:
    """The detection of one rank: its detector, its unit of work, and its latest records."""

    def __init__(self, rank: int, make: Callable[[int], Detector], kept: int) -> None:
        self.rank, self._make = rank, make
        self.rows: deque[Row] = deque(maxlen=kept)
        self.about: dict[str, object] = {}
        self.detector = make(rank)
        self._ledger = Ledger()
        self.lost: LostTime | None = None
        self._unit = StepTimeUnit()
        self._held: list[Row] = []

    def feed(self, row: Row) -> list[Alarm]:
        self.rows.append(row)
        self._ledger.step(row)
        if row[_FLAGS] & _ANEW and self._unit.decided:
            self._unit = StepTimeUnit()
        if not self._unit.decided and self.detector.needs_work:
            self._held.append(row)
            return self.decide() if len(self._held) >= DECIDED_AFTER else []
        return self._pass_on(row)

    def decide(self) -> list[Alarm]:
        """Choose the unit of work from the held steps, run these steps through the detector, and return their
        alarms."""
        held, self._held = self._held, []
        if held:
            self._unit.decide(held)
        return [alarm for row in held for alarm in self._pass_on(row)]

    def _pass_on(self, row: Row) -> list[Alarm]:
        found = self.detector.feed(row[_STEP], row[_WALL], self._unit.work(row), row[_FLAGS])
        if found is not None:
            self.lost = self._ledger.alarm(found, self.rows)
        elif not self.detector.slow:
            self._ledger = Ledger()
        return [found] if found else []

    def steps(self) -> Steps:
        return steps_of(self.rank, list(self.rows), self.about)


class JobDetector:
    """A detector for a job, fed with the records of every rank as they come; gives notices in the order of steps."""

    def __init__(self, make: Callable[[int], Detector], kept: int = KEPT) -> None:
        """`kept`: number of records of a rank in which causes are looked for."""
        self._make, self._kept = make, kept
        self._ranks: dict[int, _Rank] = {}
        self._waiting: dict[int, deque[tuple[int, Row]]] = {}
        self._behind: dict[int, tuple[int, int]] = {}
        self._episodes: list[_Episode] = []
        self._looked = -1
        self._late: int | None = None
        self._maybe: int | None = None
        self._untold = False
        self.count = 0

    def add(self, rank: int, rows: Sequence[Row], about: dict[str, object] | None = None) -> None:
        """Add records of a rank, oldest first."""
        if rank not in self._ranks:
            self._ranks[rank] = _Rank(rank, self._make, self._kept)
            self._waiting[rank] = deque()
            self._behind[rank] = (0, -1)
        if about is not None:
            self._ranks[rank].about = about
        # A job that returns to a checkpoint counts its steps anew: records that come later are later all the same.
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
        """The detector of slow steps for each rank."""
        return {rank: known.detector for rank, known in self._ranks.items()}

    def steps(self) -> list[Steps]:
        """The latest steps of every rank, as far as they were examined."""
        return [known.steps() for _, known in sorted(self._ranks.items()) if known.rows]

    def until_now(self, notice: Notice) -> Notice:
        """The notice with cause and change recomputed until the latest step: with more steps than when it was given."""
        known = self._ranks.get(notice.alarm.rank) if notice.alarm is not None else None
        if notice.alarm is None or known is None or not known.rows:
            return notice
        alarm = replace(notice.alarm, step=max(known.rows[-1][_STEP], notice.alarm.step))
        steps = {rank: one.steps() for rank, one in self._ranks.items()}
        first, cause = cause_of_alarms(steps, [alarm])
        rank = cause.rank if cause is not None else first.rank
        changed = changed_since(steps[rank], alarm)
        return replace(notice, cause=cause or notice.cause, changed=changed or notice.changed)

    def forget(self, rank: int) -> None:
        """Forget an ended rank: its records count no more."""
        for gone in (self._ranks, self._waiting, self._behind):
            gone.pop(rank, None)
        for episode in self._episodes:
            episode.slow.discard(rank)

    def notices(self, *, idle: frozenset[int] = frozenset(), end: bool = False) -> list[Notice]:
        """The notices up to the step that all ranks but the `idle` ones have ended; all notices at the `end`, when no
        more records come."""
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
            # The detector began anew: its reference is no longer the steps before the alarm.
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
            worse = alarm.after_ns >= _WORSE * max(one.after_ns for one in episode.alarms)
            if not worse and not self._of_another_cause(episode, alarm):
                return [self._notice("again", episode, alarm)]
            episode.alarms = [alarm]
            return [self._notice("alarm", episode, alarm)]
        made = _Episode(alarms=[alarm], until=alarm.step + _TOGETHER, slow={rank}, ranks={rank})
        self._episodes.append(made)
        return self._due(None) if len(self._ranks) == 1 else []

    def _of_another_cause(self, episode: _Episode, alarm: Alarm) -> bool:
        """Whether steps that became slower again, by less than a quarter, have another cause than before."""
        _, cause = cause_of_alarms({rank: known.steps() for rank, known in self._ranks.items()}, [alarm])
        return cause is not None and (episode.cause is None or cause.name is not episode.cause.name)

    def _due(self, step: int | None) -> list[Notice]:
        """The alarms of periods whose other ranks had time to show the change, too."""
        found = []
        for episode in self._episodes:
            if episode.said is None and (step is None or not 0 <= episode.until - step <= _TOGETHER):
                found.append(self._notice("alarm", episode, episode.alarms[0]))
        return found

    def _notice(self, kind: str, episode: _Episode, alarm: Alarm) -> Notice:
        cause = episode.cause
        if kind == "alarm":
            steps = {rank: known.steps() for rank, known in self._ranks.items()}
            alarm, cause = cause_of_alarms(steps, episode.alarms if episode.said is None else [alarm])
            episode.said, episode.cause = alarm, cause
        known = self._ranks.get(cause.rank if cause is not None else alarm.rank)
        changed = changed_since(known.steps(), alarm) if known is not None and kind != "recovered" else None
        ranks = tuple(sorted(episode.ranks))
        lost = self._ranks[alarm.rank].lost if alarm.rank in self._ranks else None
        return Notice(kind=kind, step=alarm.step, since=alarm.since, ranks=ranks, alarm=alarm, cause=cause, lost=lost,
                      changed=changed)  # fmt: skip

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
        """Stragglers, every twenty steps over the last 60 and 120: a rank that was late in two looks in a row is
        one."""
        if len(self._ranks) < 2:
            return []
        latest = self._stretch(step, _STRETCHES[0])
        late = straggler(latest)
        for length in _STRETCHES[1:]:
            late = late or straggler(self._stretch(step, length))
        if late is None and not self._untold and (why := untold(latest)) not in (None, UNTOLD_DEVICE):
            self._untold = True
            ranks = tuple(sorted(self._ranks))
            return [Notice(kind="untold", step=step, since=max(step - _STRETCHES[0], 0), ranks=ranks, why=why)]
        rank, before, self._maybe = (late.rank if late else None), self._maybe, (late.rank if late else None)
        if rank != before or rank == self._late:
            return []
        gone, self._late = self._late, rank
        # The rank was late in two looks: the stretch that both have seen.
        since = step - _STRETCHES[0]
        if late is None:
            return [Notice(kind="caught up", step=step, since=max(since, 0), ranks=(gone,) if gone is not None else ())]
        return [Notice(kind="straggler", step=step, since=max(since, 0), ranks=(late.rank,), late=late)]

    def _stretch(self, step: int, length: int) -> list[Steps]:
        """The latest `length` steps of every rank before step `step`."""
        return [
            steps_of(rank, [row for row in list(known.rows)[-length - _EVERY :] if row[_STEP] < step][-length:],
                     known.about)
            for rank, known in self._ranks.items()
        ]  # fmt: skip


def replay(ranks: Sequence[Steps], make: Callable[[int], Detector]) -> list[Notice]:
    """All notices of a job whose logs are complete."""
    made = JobDetector(make)
    for steps in ranks:
        made.add(steps.rank, steps.rows(), dict(steps.about))
    return made.notices(end=True)
