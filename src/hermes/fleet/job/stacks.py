"""Use case: collect the stacks of all ranks of a job, and name the cause of their wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermes.base.errors import Diagnostic
from hermes.fleet.hosts.transport import Answer, Transport, each, each_job
from hermes.fleet.job import messages
from hermes.fleet.job.hang import RankStack, Stacks, name_cause, ranks_without_cause
from hermes.fleet.job.parse_host_answers import (
    JOB_ID,
    GarbledError,
    document_of,
    name_of,
    silence_of,
    text,
    whole_number,
)
from hermes.fleet.job.status import JobsPicture, SilentHost, silent_notes, silent_table, stalls_of
from hermes.jobs.api import ASKED, Connection, GroupProgress, PendingCollective
from hermes.model.document import CodeText, Column, Document, DocumentInput, Part, Table
from hermes.model.finding import Finding

SCHEMA = "hermes.fleet-stacks/1"
_STACKS = "hermes.stacks/1"
_SHOWN = 4
_LONGEST_STACK = 65_536
_MOST_PARTS, _MOST_RANKS = 256, 100_000


async def ask(
    transport: Transport, hermes: Sequence[str], picture: JobsPicture, within_s: float, name: str = ""
) -> Stacks:  # fmt: skip
    """The stacks of all ranks in the picture; for an ended job, the stacks that its watchers stored."""
    made = Stacks(picture)
    if not picture.jobs:
        await _ask_ended(transport, hermes, made, name, within_s)
        return made
    orders: dict[tuple[str, str], Sequence[str]] = {
        (job.host, job.job): (*hermes, "stacks", job.job, "--format", "json")
        for job in picture.jobs if JOB_ID.fullmatch(job.job)
    }  # fmt: skip
    async for answer in each_job(transport, orders, within_s=within_s, most_bytes=64 << 20):
        try:
            made.ranks += read(answer)
        except GarbledError as garbled:
            why = (answer.why or str(garbled))[:200]
            made.silent.append(SilentHost(host=answer.host, silence=silence_of(answer), why=why))
    made.ranks.sort(key=lambda one: one.rank)
    return made


async def _ask_ended(
    transport: Transport, hermes: Sequence[str], made: Stacks, name: str, within_s: float
) -> None:  # fmt: skip
    """Add the ranks of the job that ended last on any host, from all hosts that ran it."""
    orders = {host: (*hermes, "stacks", "--ended", "--format", "json", "--", name) for host in made.picture.idle}
    kept: list[tuple[int, str, list[RankStack]]] = []
    async for answer in each(transport, orders, within_s=within_s, most_bytes=64 << 20):
        try:
            ranks, found = read(answer), document_of(answer, _STACKS)
            ago = whole_number(found.get("ended_ns"))
            if ranks and ago is not None:
                kept.append((ago, name_of(text(found["job"]), text(found.get("launch") or "")), ranks))
        except (GarbledError, KeyError) as garbled:
            made.silent.append(SilentHost(host=answer.host, silence=silence_of(answer), why=str(garbled)[:200]))
    if kept:
        made.ended_ns, last, _ = min(kept, key=lambda one: one[:2])
        made.ranks = sorted((one for _, job, ranks in kept if job == last for one in ranks), key=lambda one: one.rank)


async def why_still(
    transport: Transport, hermes: Sequence[str], picture: JobsPicture, within_s: float
) -> list[Finding]:  # fmt: skip
    """The cause of the wait in jobs without progress; no host is asked if all jobs make progress."""
    found: list[Finding] = []
    for one in stalls_of(picture):
        jobs = [job for job in picture.jobs if job.name == one.name]
        alone = JobsPicture(picture.where, asked=picture.asked, jobs=jobs, silent=picture.silent)
        made = await ask(transport, hermes, alone, within_s)
        found += name_cause(made, silent_hosts(made))
    return found


def silent_hosts(made: Stacks) -> list[str]:
    """Hosts that did not answer when they were asked for their jobs or for their stacks."""
    return sorted({one.host for one in (*made.picture.silent, *made.silent)})


def read(answer: Answer) -> list[RankStack]:
    """The ranks in an answer. Raises `GarbledError`."""
    if answer.silence is not None:
        raise GarbledError(answer.why)
    rows = document_of(answer, _STACKS).get("ranks")
    try:
        return [_stood(answer.host, row) for row in rows[:512]]  # type: ignore[index]
    except (TypeError, LookupError, AttributeError) as broken:
        raise GarbledError(f"no {_STACKS}") from broken


def _stood(host: str, row: Mapping[str, Any]) -> RankStack:
    rank, step = whole_number(row["rank"]), whole_number(row["step"])
    if rank is None or step is None:
        raise GarbledError(f"no {_STACKS}")
    age_ns, usual_ns, longest_ns = (whole_number(row.get(key)) for key in ("age_ns", "usual_ns", "longest_ns"))
    return RankStack(
        host=host, rank=rank, step=step, age_ns=age_ns, alive=row.get("alive") is True,
        still=ASKED.over(age_ns, usual_ns, longest_ns),
        collective=text(row.get("collective") or ""), line=text(row.get("line") or ""),
        stack=str(row.get("stack") or "")[:_LONGEST_STACK], groups=tuple(map(_group, _few(row.get("groups")))),
        links=tuple(map(_link, _few(row.get("links")))),
    )  # fmt: skip


def _few(rows: object) -> list[Mapping[str, Any]]:
    return [one for one in rows[:_MOST_PARTS] if isinstance(one, dict)] if isinstance(rows, list) else []


def _group(row: Mapping[str, Any]) -> GroupProgress:
    ranks, waiting = row.get("ranks"), row.get("waiting")
    members = ranks[:_MOST_RANKS] if isinstance(ranks, list) else []
    return GroupProgress(
        name=text(row["name"]), about=text(row["about"]), last=whole_number(row["last"]) or 0,
        ranks=tuple(rank for one in members if (rank := whole_number(one)) is not None),
        waiting=None if not isinstance(waiting, dict) else PendingCollective(
            number=whole_number(waiting["number"]) or 0, name=text(waiting["name"]), state=text(waiting["state"]),
            sizes=text(waiting["sizes"]), line=text(waiting["line"]),
        ),
    )  # fmt: skip


def _link(row: Mapping[str, Any]) -> Connection:
    return Connection(local=text(row["local"]), remote=text(row["remote"]), tries=whole_number(row["tries"]) or 0)


def document(made: Stacks) -> Document:
    """The document: the cause of the wait, then the stack of each rank."""
    picture = made.picture
    told = JobsPicture(
        picture.where, asked=picture.asked, silent=[*picture.silent, *made.silent], absent=picture.absent
    )
    findings = tuple(name_cause(made, silent_hosts(made)))
    return Document(
        schema=SCHEMA, inputs=(DocumentInput(path=picture.where, role="hosts", facts={"hosts": picture.asked}),),
        answer=findings[0].message if findings else ranks_without_cause(made, silent_hosts(made)), findings=findings,
        coverage=(*silent_notes(told), *_ended(made), *_unasked(made)),
        facts={"still": made.still, "silent": len(told.silent), "named": [one.code for one in findings]},
        parts=(_table(made.ranks), *_shown(made), silent_table(told)),
    )  # fmt: skip


def _ended(made: Stacks) -> list[Diagnostic]:
    return [] if made.ended_ns is None else [Diagnostic(level="info", message=messages.job_ended(ago=made.ended_ns))]


def _unasked(made: Stacks) -> list[Diagnostic]:
    ranks = [one.rank for one in made.ranks if one.alive and not one.line]
    return [Diagnostic(level="degraded", message=messages.no_stacks(ranks=ranks))] if ranks else []


def _table(ranks: Sequence[RankStack]) -> Table:
    columns = (
        Column(key="rank", title=messages.RANK, kind="count"), Column(key="host", title=messages.HOST, kind="name"),
        Column(key="line", title=messages.LINE, kind="name"),
        Column(key="collective", title=messages.IN_COLLECTIVE, kind="name"),
        Column(key="step", title=messages.STEP, kind="count"), Column(key="age_ns", title=messages.AGE, kind="ns"),
        Column(key="alive", title=messages.ALIVE, kind="flag"),
    )  # fmt: skip
    # Ranks that do not wait stand first: the others are alike.
    ordered = sorted(ranks, key=lambda one: (bool(one.collective), one.alive, one.rank))
    rows = [(one.rank, one.host, one.line or None, one.collective or None, one.step, one.age_ns, one.alive)
            for one in ordered]  # fmt: skip
    return Table(key="ranks", title=messages.RANKS, columns=columns, rows=rows)


def _shown(made: Stacks) -> list[Part]:
    """The stacks of the named ranks, as text."""
    shown = [one for one in (made.absent if made.still else []) if one.stack][:_SHOWN]
    return [
        CodeText(key=f"stack_{one.rank}_{at}", title=messages.stack_of(rank=one.rank, host=one.host), text=one.stack)
        for at, one in enumerate(shown)
    ]
