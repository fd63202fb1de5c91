"""The document of a weekly report: time lost by cause and host, then days, alarms, stragglers and captures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, Text
from hermes.fleet.job.messages import DO_STACKS, HOST, JOB, OWN, RANK, REPORT
from hermes.fleet.report import messages
from hermes.fleet.report.jobs_of_week import JobWeek, Trouble, Week
from hermes.jobs.api import DAY_NS, LateRank, PastCapture, SlowSteps
from hermes.knowledge.confidence import confidence
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Action, Finding
from hermes.model.leaf import Risk

SCHEMA = "hermes.fleet-report/1"
_FINDINGS = 20
_ROWS = 20_000


def document(week: Week, inputs: Sequence[DocumentInput], *, sampled: bool) -> Document:
    """The document of a week. `sampled`: only medians of steps are known, and no single long steps."""
    notes = [*week.notes, *([_coarse()] if sampled else [])]
    worst = week.worst
    return Document(
        schema=SCHEMA, inputs=tuple(inputs), answer=_answer(week), coverage=tuple(notes),
        findings=tuple(_finding(job, one) for job, one in worst[:_FINDINGS]),
        facts={
            "since_ns": week.since_ns, "until_ns": week.until_ns, "jobs": len(week.jobs),
            "trained_ns": sum(job.trained_ns for job in week.jobs), "lost_ns": sum(job.lost_ns for job in week.jobs),
        },
        parts=(_days(week, sampled=sampled), _alarms(worst), _stragglers(week), _captures(week)),
    )  # fmt: skip


def _coarse() -> Diagnostic:
    return Diagnostic(level="info", message=messages.NOT_IN_PROMETHEUS)


def _answer(week: Week) -> Message:
    jobs, trained = len(week.jobs), sum(job.trained_ns for job in week.jobs)
    if not jobs:
        return messages.nobody_trained(since=moment(week.since_ns))
    lost = sum(job.lost_ns for job in week.jobs)
    late = _latest(week)
    if not lost:
        return messages.week_still(n=jobs, trained=trained, since=moment(week.since_ns), late=late)
    job, one = week.worst[0]
    most = messages.lost_most(
        lost=one.lost_ns or 0, what=_what(one.first), hosts=one.hosts, job=job.name, rank=_rank(one)
    )  # fmt: skip
    return messages.week_lost(
        lost=lost, share=lost / max(trained, lost), trained=trained, n=jobs, most=most, late=late
    )  # fmt: skip


def _latest(week: Week) -> Message | None:
    found = [(one.waited_ns or 0, job, one) for job in week.jobs for one in job.late]
    if not found:
        return None
    waited, job, one = max(found, key=lambda row: row[0])
    return messages.waited_most(waited=waited, rank=one.rank, host=one.host, job=job.name)


def _what(row: SlowSteps) -> Message:
    return row.cause.message if row.cause is not None else row.kind.message


def _rank(one: Trouble) -> int | None:
    """The rank to look at first, if one host names it."""
    row = one.first
    return row.ranks[0] if row.ranks and row.kind is not Risk.STALL and len(one.hosts) == 1 else None


def _finding(job: JobWeek, one: Trouble) -> Finding:
    row = one.first
    capture = _capture_of(job, one)
    return Finding(
        code=row.cause.value if row.cause else row.kind.value,
        about=row.kind if isinstance(row.kind, Risk) else Risk.SLOWER, confidence=confidence("jobs.change"),
        message=messages.trouble(
            what=_what(row), hosts=one.hosts, job=job.name, lost=one.lost_ns, since=moment(row.since_ns),
            until=_end(row), before=row.before_ns, after=row.after_ns, said=None if row.before_ns else row.said or None,
            found=capture.found if capture else None,
        ),
        ranks=row.ranks, actions=(_action(row, capture),),
    )  # fmt: skip


def _action(row: SlowSteps, capture: PastCapture | None) -> Action:
    title: Text = row.cause.remedy if row.cause is not None else messages.DO_CAPTURE_NEXT
    if row.kind is Risk.STALL:
        title = DO_STACKS
    if capture is not None and capture.report is not None:
        title = messages.do_read_report(report=str(capture.report))
    return Action(title=title, do="", verify="", risk="", source="")


def _capture_of(job: JobWeek, one: Trouble) -> PastCapture | None:
    """The first capture with a finding that was made while the steps were slower, or within a minute afterwards."""
    until = max(row.until_ns for row in one.rows) + 60 * 10**9
    return next((made for made in job.captures if made.found and one.first.since_ns <= made.at_ns <= until), None)


def _end(row: SlowSteps) -> str:
    """The end of a slow period: only the time if it ended on the same day."""
    since, until = moment(row.since_ns), moment(row.until_ns)
    return until.split()[1] if since[:10] == until[:10] else until


def _days(week: Week, *, sampled: bool) -> Table:
    columns = (
        Column(key="day", title=messages.DAY, kind="name"), Column(key="job", title=JOB, kind="name"),
        Column(key="lost_ns", title=messages.LOST_TIME, kind="ns"),
        Column(key="lost_share", title=messages.LOST_SHARE, kind="share"),
        Column(key="steps", title=messages.STEPS, kind="count"),
        Column(key="typical_ns", title=messages.TYPICAL, kind="ns"),
        Column(key="p99_ns", title=messages.P99, kind="ns"),
        Column(key="trained_ns", title=messages.TRAINED, kind="ns"),
        Column(key="ranks", title=messages.RANKS, kind="count"), Column(key="hosts", title=messages.HOSTS, kind="list"),
    )  # fmt: skip
    rows = [
        (
            moment(day.day * DAY_NS)[:10], job.name, day.lost_ns, day.lost_ns / max(day.trained_ns, day.lost_ns, 1),
            day.steps, day.walls.quantile(0.5), None if sampled else day.walls.quantile(0.99), day.trained_ns,
            job.ranks, job.hosts[:20],
        )
        for job in week.jobs for day in job.days
    ]  # fmt: skip
    rows.sort(key=lambda row: (row[0], -row[2], row[1]))
    return Table(key="days", title=messages.DAYS, columns=columns, rows=rows[-_ROWS:], total=len(rows))


def _alarms(worst: Sequence[tuple[JobWeek, Trouble]]) -> Table:
    columns = (
        Column(key="lost_ns", title=messages.LOST_TIME, kind="ns"),
        Column(key="what", title=messages.WHAT, kind="word"), Column(key="host", title=HOST, kind="name"),
        Column(key="ranks", title=messages.RANKS, kind="list"),
        Column(key="since", title=messages.SINCE, kind="name"), Column(key="until", title=messages.UNTIL, kind="name"),
        Column(key="job", title=JOB, kind="name"), Column(key="before_ns", title=messages.BEFORE, kind="ns"),
        Column(key="after_ns", title=messages.AFTER, kind="ns"),
        Column(key="over", title=messages.OVER, kind="flag"), Column(key="hosts", title=messages.HOSTS, kind="list"),
    )  # fmt: skip
    rows = [
        (
            one.lost_ns, one.first.cause or one.first.kind, one.first.host, one.first.ranks[:20],
            moment(one.first.since_ns), moment(one.first.until_ns), job.name, one.first.before_ns, one.first.after_ns,
            one.first.over, sorted({row.host for row in one.rows})[:20],
        )
        for job, one in worst[:_ROWS]
    ]  # fmt: skip
    return Table(key="alarms", title=messages.ALARMS, columns=columns, rows=rows, total=len(worst))


def _stragglers(week: Week) -> Table:
    columns = (
        Column(key="since", title=messages.SINCE, kind="name"), Column(key="until", title=messages.UNTIL, kind="name"),
        Column(key="waited_ns", title=messages.WAITED, kind="ns"), Column(key="rank", title=RANK, kind="count"),
        Column(key="host", title=HOST, kind="name"), Column(key="job", title=JOB, kind="name"),
        Column(key="own_ns", title=OWN, kind="ns"), Column(key="others_ns", title=messages.OTHERS, kind="ns"),
    )  # fmt: skip
    found: list[tuple[JobWeek, LateRank]] = [(job, one) for job in week.jobs for one in job.late]
    found.sort(key=lambda pair: -(pair[1].waited_ns or 0))
    rows = [
        (moment(one.since_ns), moment(one.until_ns), one.waited_ns, one.rank, one.host, job.name, one.own_ns,
         one.others_ns) for job, one in found[:_ROWS]
    ]  # fmt: skip
    return Table(key="stragglers", title=messages.STRAGGLERS, columns=columns, rows=rows, total=len(found))


def _captures(week: Week) -> Table:
    columns = (
        Column(key="time", title=messages.TIME, kind="name"), Column(key="report", title=REPORT, kind="file"),
        Column(key="found", title=messages.FOUND, kind="word"), Column(key="how", title=messages.HOW, kind="word"),
        Column(key="host", title=HOST, kind="name"), Column(key="job", title=JOB, kind="name"),
        Column(key="first_step", title=messages.FIRST_STEP, kind="count"),
        Column(key="steps", title=messages.STEPS, kind="count"),
    )  # fmt: skip
    found = sorted(((one.at_ns, job.name, one) for job in week.jobs for one in job.captures), key=lambda row: row[:2])
    rows = [
        (moment(at), _link(one.report), one.found or None, one.how, one.host, name, one.start_step, one.steps)
        for at, name, one in found[-_ROWS:]
    ]  # fmt: skip
    return Table(key="captures", title=messages.ALL_CAPTURES, columns=columns, rows=rows, total=len(found))


def _link(report: Path | None) -> str | None:
    return None if report is None else str(report)


def moment(at_ns: int) -> str:
    """A UTC time as text, to the second."""
    seconds = min(max(at_ns // 10**9, 0), 253_402_300_799)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
