"""Finds what grew at an alarm, on one rank and on several ranks that were slowed by the same cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.causes import Cause, Spent, why_slower
from hermes.jobs.detect.changed_step_parts import ChangedSteps, changed_by_turns, what_changed
from hermes.jobs.detect.read_step_logs import Steps
from hermes.jobs.detect.straggler import straggler

_AROUND = 200
_WAITING = (Spent.BLOCKED, Spent.COLLECTIVES)


def cause_of(steps: Steps, alarm: Alarm) -> Cause | None:
    """The cause of an alarm: what grew from the steps before the alarm's begin to the steps until it was noticed."""
    before, after = _parts(steps, alarm)
    return why_slower(before, after) if len(before) and len(after) else None


def changed_since(steps: Steps, alarm: Alarm) -> ChangedSteps | None:
    """What changed from the steps before the alarm's begin to the steps from the begin until the alarm was noticed."""
    before, after = _parts(steps, alarm)
    if alarm.kind is AlarmKind.TURNS and len(after):
        return changed_by_turns(after, alarm.before_ns)
    return what_changed(before, after, alarm) if len(before) and len(after) else None


def cause_of_alarms(ranks: Mapping[int, Steps], alarms: Sequence[Alarm]) -> tuple[Alarm, Cause | None]:
    """The alarm to look at first, and its cause. If ranks wait for each other, the alarm of the awaited rank comes
    first."""
    first = alarms[0]
    parts = [_parts(steps, first) for steps in ranks.values()]
    late = straggler([after for _, after in parts])
    before = straggler([then for then, _ in parts])
    if late is not None and (before is None or before.rank != late.rank):
        own = next((alarm for alarm in alarms if alarm.rank == late.rank), first)
        cause = cause_of(ranks[late.rank], own)
        if cause is None or cause.name in _WAITING:
            share = late.waited_ns / max(late.waited_ns + late.others_ns, 1)
            cause = Cause(name=Spent.STRAGGLER, rank=late.rank, cost_ns=late.waited_ns, share=min(share, 1.0))
        return own, replace(cause, late=True)
    explained = [(alarm, cause_of(ranks[alarm.rank], alarm)) for alarm in alarms if alarm.rank in ranks]
    own_doing = [pair for pair in explained if pair[1] is not None and pair[1].name not in _WAITING]
    return (own_doing or explained or [(first, None)])[0]


def _parts(steps: Steps, alarm: Alarm) -> tuple[Steps, Steps]:
    """The steps before the alarm's begin, and the steps from the begin until the alarm was noticed."""
    numbers = steps.columns["step"]
    begin = int(np.searchsorted(numbers, alarm.since))
    end = int(np.searchsorted(numbers, alarm.step, side="right"))
    usable = ~steps.flagged("first", "profiled", "foreign_profiler")
    return _usable(steps, usable, max(begin - _AROUND, 0), begin), _usable(steps, usable, begin, end)


def _usable(steps: Steps, mask: np.ndarray[tuple[int], np.dtype[np.bool_]], first: int, end: int) -> Steps:
    rows = np.flatnonzero(mask[first:end]) + first
    columns = {name: column[rows] for name, column in steps.columns.items()}
    return Steps(rank=steps.rank, columns=columns, about=steps.about)
