"""Turns alarms, stragglers and lasting causes of a step log into findings."""

from __future__ import annotations

from hermes.base.message import Message
from hermes.jobs.detect import messages as say
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.causes import Cause, Spent
from hermes.jobs.detect.lost_time import LostTime
from hermes.jobs.detect.straggler import Straggler
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Action, Blame, Evidence, Finding, Gain
from hermes.model.leaf import Risk

_TIMES = 3
"""From three times as long on, a factor is printed and no share."""
_SOURCE = "docs/evidence/detection.md"
_MS = 1e6


def of_alarm(
    alarm: Alarm, cause: Cause | None, ranks: tuple[int, ...], over: int | None = None, lost: LostTime | None = None
) -> Finding:
    """The finding that the steps of these ranks became slower since `alarm.since`, with the cause if known.

    If the steps were slower before, the change is counted from the time before all alarms.
    """
    earlier = lost if lost is not None and lost.since < alarm.since else None
    every = alarm.kind is AlarmKind.TURNS and alarm.period
    message = say.slower(
        ranks=ranks, kind=say.turns_every(n=alarm.period) if every else alarm.kind.message, since=alarm.since,
        noticed=alarm.step, change=change(alarm, earlier), share=cause.share if cause else None,
        cause=cause.name.message if cause else None, culprit=cause.rank if cause and len(ranks) > 1 else None,
        lost=max(lost.ns, 0) if lost else None, first=earlier.since if earlier else None, over=over,
    )  # fmt: skip
    return Finding(
        code=alarm.kind.value, about=Risk.SLOWER, message=message, ranks=ranks, steps=(alarm.since, alarm.step),
        blames=_blames(cause), cost_ns=max(alarm.after_ns - alarm.before_ns, 0), gain=_gain(cause),
        confidence=confidence("jobs.change"), evidence=_evidence(alarm), actions=actions(cause),
    )  # fmt: skip


def of_recovery(alarm: Alarm, ranks: tuple[int, ...], since: int, lost: LostTime | None = None) -> Finding:
    """The finding that the steps are as they were before the alarm."""
    return Finding(
        code=AlarmKind.RECOVERED.value,
        message=say.recovered(
            ranks=ranks, since=since, after=alarm.after_ns, lost=lost.ns if lost and lost.ns > 0 else None
        ),
        ranks=ranks, steps=(since,), confidence=confidence("jobs.change"),
    )  # fmt: skip


def of_straggler(late: Straggler, since: int) -> Finding:
    """The finding that the other ranks wait for one rank, in each step since `since`."""
    cause = Cause(name=Spent.STRAGGLER, rank=late.rank, cost_ns=late.waited_ns, share=1.0)
    return Finding(
        code=Spent.STRAGGLER.value, about=cause.name.about,
        message=say.straggler(rank=late.rank, since=since, work=late.own_ns, others=late.others_ns),
        ranks=(late.rank,), steps=(since,), blames=_blames(cause), cost_ns=late.waited_ns, gain=_gain(cause),
        confidence=confidence("jobs.change"), actions=actions(cause),
    )  # fmt: skip


def of_cause(cause: Cause) -> Finding:
    """The finding that a cause costs a share of all steps of a rank."""
    message = say.costs(
        rank=cause.rank, cause=cause.name.message, cost=cause.cost_ns, share=cause.share, note=cause.note
    )  # fmt: skip
    share = Evidence(what=say.SHARE_OF_TIME, value=100 * cause.share, unit="%", threshold=None, where="")
    return Finding(
        code=cause.name.value, about=cause.name.about, message=message, ranks=(cause.rank,), blames=_blames(cause),
        cost_ns=cause.cost_ns, gain=_gain(cause), confidence=confidence("jobs.counters"), evidence=(share,),
        actions=actions(cause),
    )  # fmt: skip


def actions(cause: Cause | None) -> tuple[Action, ...]:
    """The actions of a finding that remove a cause; empty without a cause."""
    if cause is None:
        return ()
    return (Action(title=cause.name.remedy, do="", verify=say.VERIFY_STEPS, risk="", source=_SOURCE),)


def change(alarm: Alarm, earlier: LostTime | None = None) -> Message:
    """The message on the step time before and after; with an `earlier` alarm that is not over, before means before
    that."""
    before = earlier.usual_ns if earlier else alarm.before_ns
    ratio = alarm.after_ns / max(before, 1)
    by = say.more(share=ratio - 1) if ratio < _TIMES else say.times(times=ratio)
    return say.change(before=before, after=alarm.after_ns, by=by)


def _blames(cause: Cause | None) -> tuple[Blame, ...]:
    return (Blame.of_rank(cause.rank),) if cause and cause.name is Spent.STRAGGLER else ()


def _gain(cause: Cause | None) -> Gain | None:
    return None if cause is None else Gain(low_ns=0, high_ns=cause.cost_ns, method=say.BOUND)


def _evidence(alarm: Alarm) -> tuple[Evidence, ...]:
    return (
        Evidence(what=say.STEP_BEFORE, value=alarm.before_ns / _MS, unit="ms", threshold=None, where=""),
        Evidence(what=say.STEP_AFTER, value=alarm.after_ns / _MS, unit="ms", threshold=None, where=""),
        Evidence(what=say.SCORE, value=alarm.score, unit="", threshold=None, where=""),
    )
