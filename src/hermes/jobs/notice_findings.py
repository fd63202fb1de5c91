"""Turns a watcher's notice into a finding, and into facts for the events of the job."""

from __future__ import annotations

from hermes.jobs.detect.alarm_findings import of_alarm, of_recovery, of_straggler
from hermes.jobs.detect.job_alarms import Notice
from hermes.jobs.detect.messages import caught_up
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Finding


def finding_of(notice: Notice) -> Finding:
    """A notice of the detection as a finding."""
    if notice.late is not None:
        return of_straggler(notice.late, notice.since)
    if notice.alarm is None:
        return Finding(
            code=notice.kind,
            message=notice.why or caught_up(ranks=notice.ranks),
            ranks=notice.ranks,
            confidence=confidence("jobs.change"),
        )
    if notice.kind == "recovered":
        return of_recovery(notice.alarm, notice.ranks, notice.since, notice.lost)
    return of_alarm(notice.alarm, notice.cause, notice.ranks, lost=notice.lost)


def facts_of(notice: Notice) -> dict[str, object]:
    """The facts of a notice for programs that read `events.jsonl`."""
    facts: dict[str, object] = {"since": notice.since, "step": notice.step, "ranks": list(notice.ranks)}
    if notice.ranks:
        facts["rank"] = notice.ranks[0]
    alarm, cause, late = notice.alarm, notice.cause, notice.late
    if alarm is not None:
        facts |= {"rank": alarm.rank, "before_ns": alarm.before_ns, "after_ns": alarm.after_ns}
        facts |= {"change": alarm.kind, "period": alarm.period or None}
    if notice.kind == "alarm":
        facts |= {"cause": cause.name if cause else None, "cost_ns": cause.cost_ns if cause else None}
    if notice.lost is not None:
        facts |= {"lost_ns": notice.lost.ns, "lost_since": notice.lost.since}
    if late is not None:
        facts |= {"own_ns": late.own_ns, "others_ns": late.others_ns}
    return facts
