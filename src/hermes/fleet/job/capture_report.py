"""The document of a capture on many hosts: each rank, each host, and the findings of their reports."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, Text
from hermes.fleet.job import messages
from hermes.fleet.job.capture_on_hosts import Captured
from hermes.fleet.job.status import JobsPicture, SilentHost, silent_notes, silent_table
from hermes.knowledge.confidence import confidence
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Finding
from hermes.model.leaf import Risk

SCHEMA = "hermes.fleet-capture/1"
_NAMED = 20


def document(made: Captured, picture: JobsPicture, written: Sequence[str] = ()) -> Document:
    """The document of a complete, partial or revoked capture; `written` are report files on this host."""
    wrote = [Diagnostic(level="info", message=messages.written(files=written))] if written else []
    silent = [*made.silent, *(one for one in made.reduced.silent if one.host not in {had.host for had in made.silent})]
    told = JobsPicture(picture.where, asked=picture.asked, silent=silent, absent=picture.absent)
    return Document(
        schema=SCHEMA, inputs=(DocumentInput(path=picture.where, role="hosts", facts={"hosts": picture.asked}),),
        answer=_answer(made), coverage=(*_lacks(made), *silent_notes(told), *wrote), findings=tuple(_findings(made)),
        facts={"job": made.name, "start_step": made.start_step, "steps": made.steps, "whole": made.whole,
               "revoked": bool(made.revoked), "one_report": made.reduced.report is not None},
        parts=(_ranks(made), _hosts(made), silent_table(told)),
    )  # fmt: skip


def _answer(made: Captured) -> Text:
    done = [one for one in made.said.values() if one.state == "finished"]
    if made.revoked:
        return made.revoked
    if not done:
        return messages.not_captured(job=made.name)
    hosts = {one.host for one in done}
    captured = messages.captured(
        n=len(done), hosts=len(hosts), first=made.start_step, last=made.start_step + made.steps - 1
    )  # fmt: skip
    report = made.reduced.report
    return messages.found_in_all(captured=captured, verdict=report.verdict.message) if report else captured


def _lacks(made: Captured) -> list[Diagnostic]:
    """Notes on requested ranks without a trace, by their reason."""
    by_state: dict[str, list[int]] = {}
    if not made.revoked:
        for one in made.said.values():
            if one.state != "finished":
                by_state.setdefault(one.state, []).append(one.rank)
    notes = [messages.not_whole(ranks=ranks, state=state) for state, ranks in sorted(by_state.items())]
    return [Diagnostic(level="degraded", message=one) for one in (*notes, *_unreduced(made))]


def _unreduced(made: Captured) -> list[Message]:
    """What the report of all ranks lacks, or why there is none."""
    report = made.reduced.report
    if report is None:
        return [messages.not_one_report(why=made.reduced.why)] if made.reduced.why else []
    absent = {one.rank for one in made.said.values() if one.state == "finished"} - {row.rank for row in report.inputs}
    return [messages.not_in_report(ranks=absent)] if absent else []


def _findings(made: Captured) -> list[Finding]:
    """The findings of the whole job; without a report of all ranks, the findings of each host's report."""
    if made.reduced.report is not None:
        return list(made.reduced.report.findings[:_NAMED])
    return [
        Finding(
            code="capture", about=Risk.NOTE, confidence=confidence("fleet.straggler"), ranks=part.ranks,
            message=messages.host_says(host=part.host, said=said),
        )
        for part in made.parts.values() for said in (part.verdict, *part.findings) if said
    ][:_NAMED * 3]  # fmt: skip


def _ranks(made: Captured) -> Table:
    columns = (
        Column(key="rank", title=messages.RANK, kind="count"), Column(key="host", title=messages.HOST, kind="name"),
        Column(key="state", title=messages.STATE, kind="name"), Column(key="said", title=messages.SAID, kind="name"),
    )  # fmt: skip
    # Ranks without a trace stand first.
    ordered = sorted(made.said.values(), key=lambda one: (one.state == "finished", one.rank))
    rows = [(one.rank, one.host, one.state, one.text or None) for one in ordered]
    return Table(key="ranks", title=messages.RANKS, columns=columns, rows=rows)


def _hosts(made: Captured) -> Table:
    columns = (
        Column(key="host", title=messages.HOST, kind="name"), Column(key="job", title=messages.JOB, kind="name"),
        Column(key="folder", title=messages.FOLDER, kind="name"),
        Column(key="report", title=messages.REPORT, kind="name"),
    )  # fmt: skip
    rows = [(part.host, part.job, part.folder or None, part.report if part.verdict else None)
            for part in sorted(made.parts.values(), key=lambda part: part.host)]  # fmt: skip
    return Table(key="captures", title=messages.CAPTURES, columns=columns, rows=rows)


def stopped(picture: JobsPicture, silent: Sequence[SilentHost], hosts: int) -> Document:
    """The document after captures were stopped on `hosts` hosts."""
    told = JobsPicture(picture.where, asked=picture.asked, silent=[*picture.silent, *silent], absent=picture.absent)
    return Document(
        schema="hermes.fleet-stop/1", inputs=(DocumentInput(path=picture.where, role="hosts"),),
        answer=messages.stopped(n=hosts), coverage=tuple(silent_notes(told)),
        facts={"stopped": hosts, "silent": len(told.silent)}, parts=(silent_table(told),),
    )  # fmt: skip
