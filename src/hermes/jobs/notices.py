"""What a watcher says of a notice, in a line, and what it writes among the events of the job."""

from __future__ import annotations

from hermes.jobs.detect.alarm import Alarm
from hermes.jobs.detect.job import Notice
from hermes.jobs.stuck import ranks_of


def text_of(notice: Notice) -> str:
    """In a line."""
    alarm, who = notice.alarm, ranks_of(notice.ranks)
    be, have = ("is", "has") if len(notice.ranks) == 1 else ("are", "have")
    if notice.late is not None:
        late = notice.late
        text = f"{late.own_ns / 1e6:.1f} ms of its own in a step, the others {late.others_ns / 1e6:.1f} ms"
        return f"the other ranks wait for rank {late.rank} since step {notice.since}: {text}"
    if alarm is None:
        return f"the other ranks no longer wait for {who}"
    if notice.kind == "recovered":
        return f"{who} {be} as fast as before since step {notice.since}: {alarm.after_ns / 1e6:.2f} ms a step"
    cause = notice.cause
    why = f"; {cause.share:.0%} of it is {cause.what} ({cause.name})" if cause else ""
    if cause and len(notice.ranks) > 1:
        why += f" on rank {cause.rank}"
    if alarm.kind == "turns":
        every = f"every {alarm.period} steps" if alarm.period else "unevenly"
        return f"{who} {have} single slow steps since step {notice.since}, {every}: {change(alarm)} on average{why}"
    return f"{who} {be} slower since step {notice.since}: {change(alarm)}{why}"


def change(alarm: Alarm) -> str:
    """From what to what, and by how much."""
    by = f"{alarm.ratio - 1:+.0%}" if alarm.ratio < 3 else f"{alarm.ratio:.1f} times"
    return f"{alarm.before_ns / 1e6:.2f} -> {alarm.after_ns / 1e6:.2f} ms a step ({by})"


def facts_of(notice: Notice) -> dict[str, object]:
    """What stands in `events.jsonl`."""
    facts: dict[str, object] = {"since": notice.since, "step": notice.step, "ranks": list(notice.ranks)}
    if notice.ranks:
        facts["rank"] = notice.ranks[0]
    alarm, cause, late = notice.alarm, notice.cause, notice.late
    if alarm is not None:
        facts |= {"rank": alarm.rank, "before_ns": alarm.before_ns, "after_ns": alarm.after_ns}
        facts |= {"change": alarm.kind, "period": alarm.period or None}
    if notice.kind == "alarm":
        facts |= {"cause": cause.name if cause else None, "cost_ns": cause.cost_ns if cause else None}
        facts["do"] = cause.do if cause else None
    if late is not None:
        facts |= {"own_ns": late.own_ns, "others_ns": late.others_ns}
    return facts
