"""Use case: ask all hosts for their jobs, and make one status of all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.fleet.hosts.transport import Answer, Silence, Transport, each
from hermes.fleet.job import messages
from hermes.fleet.job.find_slow_jobs import Stall, Straggler, by_job, slowest_first, stall, straggler, wrong_clocks
from hermes.fleet.job.parse_host_answers import GarbledError, JobRow, RankRow, clock_of, jobs_of, silence_of
from hermes.knowledge.confidence import confidence
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Action, Blame, Evidence, Finding
from hermes.model.leaf import Risk

SCHEMA = "hermes.fleet-status/1"
LOOK = ("watch", "--once", "--format", "json")
"""The command of `hermes` that is run on each host."""
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentHost:
    """A host without an answer, and the reason."""

    host: str
    silence: Silence
    why: str


@dataclass(slots=True)
class JobsPicture:
    """The answers of all hosts so far."""

    where: str
    asked: int = 0
    jobs: list[JobRow] = field(default_factory=list)
    silent: list[SilentHost] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    """Hosts that run no such job."""
    absent: Mapping[str, str] = field(default_factory=dict)
    clocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The least and the most that each host's clock is ahead of this host's (ns)."""

    def take(self, answer: Answer, name: str = "") -> None:
        """Add a host's answer: only the jobs whose name, or name on the host, contains `name`."""
        self.asked += 1
        try:
            found = [one for one in _jobs(answer) if name in one.name or name in one.job]
        except GarbledError as garbled:
            why = answer.why or str(garbled)
            self.silent.append(SilentHost(host=answer.host, silence=silence_of(answer), why=why[:200]))
            return
        if (clock := clock_of(answer)) is not None:
            self.clocks[answer.host] = clock
        self.jobs += found
        if not found:
            self.idle.append(answer.host)

    @property
    def ranks(self) -> list[RankRow]:
        """The ranks of all jobs, slowest first."""
        return slowest_first([row for job in self.jobs for row in job.ranks])


def _jobs(answer: Answer) -> list[JobRow]:
    if answer.silence is not None:
        raise GarbledError(answer.why)
    return jobs_of(answer)


async def look(transport: Transport, *, where: str, hermes: Sequence[str], name: str, within_s: float) -> JobsPicture:
    """Ask all hosts, each for at most `within_s` seconds."""
    picture = JobsPicture(where, absent=transport.absent)
    orders = {host: (*hermes, *LOOK) for host in transport.hosts}
    async for answer in each(transport, orders, within_s=within_s):
        picture.take(answer, name)
    return picture


def stalls_of(picture: JobsPicture) -> list[Stall]:
    """The standstills of jobs that make no progress."""
    return [found for name, rows in by_job(picture.ranks) if (found := stall(name, rows))]


def stragglers_of(picture: JobsPicture) -> list[tuple[Straggler, Sequence[RankRow]]]:
    """Ranks that others wait for, each with the rows of its job; only in jobs that make progress."""
    found: list[tuple[Straggler, Sequence[RankRow]]] = []
    for name, rows in by_job(picture.ranks):
        if not stall(name, rows) and (one := straggler(rows)):
            found.append((one, rows))
    return found


def document(picture: JobsPicture, why: Sequence[Finding] = ()) -> Document:
    """The document of a picture: what stands out, silent hosts, and all ranks, slowest first.

    `why` are findings from the stacks of ranks without progress, and differences on the host of a straggler.
    """
    ranks = picture.ranks
    groups = list(by_job(ranks))
    stalls = stalls_of(picture)
    still = {one.name for one in stalls}
    late = [one for one, _ in stragglers_of(picture)]
    findings = (*why, *map(_stalled, stalls), *map(_straggler, late), *_said(picture, still))
    if not stalls:
        findings = (*map(_straggler, late), *why, *_said(picture, still))
    return Document(
        schema=SCHEMA, inputs=(DocumentInput(path=picture.where, role="hosts", facts={"hosts": picture.asked}),),
        answer=why[0].message if stalls and why else _answer(picture, ranks, stalls, late),
        coverage=tuple(_coverage(picture)), findings=findings,
        facts={
            "hosts": picture.asked, "ranks_seen": len(ranks), "jobs": len(groups), "silent": len(picture.silent),
            "stands_out": bool(findings),
        },
        parts=(_table(ranks), silent_table(picture)),
    )  # fmt: skip


def _answer(
    picture: JobsPicture, ranks: Sequence[RankRow], stalls: Sequence[Stall], late: Sequence[Straggler]
) -> Message:
    hosts = picture.asked - len(picture.silent)
    if stalls:
        return messages.job_stalled(job=stalls[0].name, waited=stalls[0].still_ns, last=stalls[0].step)
    if late:
        worst = late[0]
        return messages.straggler_is(
            rank=worst.row.rank, host=worst.row.host, own=worst.own_ns, others=worst.others_ns
        )  # fmt: skip
    if not ranks:
        return messages.no_ranks(n=hosts)
    return messages.all_run(n=len(ranks), hosts=hosts)


def _stalled(one: Stall) -> Finding:
    blamed = one.gone or one.behind
    return Finding(
        code="no progress", about=Risk.STALL, confidence=confidence("jobs.stuck"), steps=(one.step,),
        message=messages.nobody_steps(
            job=one.name, waited=one.still_ns, last=one.step, gone=[row.rank for row in one.gone] or None,
            behind=[row.rank for row in one.behind] or None, hosts=sorted({row.host for row in blamed}) or None,
        ), ranks=tuple(row.rank for row in blamed), blames=tuple(Blame.of_rank(row.rank) for row in blamed),
        actions=(_do(messages.DO_STACKS),),
    )  # fmt: skip


def _straggler(one: Straggler) -> Finding:
    row, more = one.row, one.own_ns - one.others_ns
    return Finding(
        code="straggler", about=Risk.SLOWER, confidence=confidence("fleet.straggler"), cost_ns=more,
        message=messages.straggles(rank=row.rank, host=row.host, own=one.own_ns, others=one.others_ns, more=more),
        ranks=(row.rank,), blames=(Blame.of_rank(row.rank),), actions=(_do(messages.do_capture(rank=row.rank)),),
        evidence=(Evidence(what=messages.OWN, value=float(one.own_ns), unit="ns", threshold=float(one.others_ns),
                           where=row.host),),
    )  # fmt: skip


def _said(picture: JobsPicture, still: set[str]) -> list[Finding]:
    """Findings of single hosts' watchers about their ranks, for jobs without a finding of the whole job."""
    return [
        Finding(
            code="slow", about=Risk.SLOWER, confidence=confidence("fleet.straggler"), actions=(),
            message=messages.host_says(host=job.host, said=job.stalled or (job.said[-1] if job.said else job.name)),
            ranks=tuple(row.rank for row in job.ranks),
        )
        for job in picture.jobs if job.name not in still and (job.slow or job.stalled is not None)
    ][:_NAMED]  # fmt: skip


def _do(title: Message) -> Action:
    return Action(title=title, do="", verify="", risk="", source="")


def _coverage(picture: JobsPicture) -> list[Diagnostic]:
    """Notes on silent hosts, by reason; then on hosts without a rank of the job."""
    notes: list[Message] = []
    if picture.idle:
        notes.append(messages.hosts_idle(hosts=sorted(picture.idle)[:_NAMED], n=len(picture.idle)))
    notes += [
        (messages.clock_ahead if off > 0 else messages.clock_behind)(host=host, off=abs(off))
        for host, off in wrong_clocks(picture.clocks)[:_NAMED]
    ]
    doubled = _doubled(picture.ranks)
    if doubled:
        notes.append(messages.ranks_doubled(ranks=doubled))
    return [*silent_notes(picture), *(Diagnostic(level="degraded", message=one) for one in notes)]


def silent_notes(picture: JobsPicture) -> list[Diagnostic]:
    """One note for each reason why hosts did not answer."""
    by_why: dict[Silence, list[SilentHost]] = {}
    for one in picture.silent:
        by_why.setdefault(one.silence, []).append(one)
    notes = [
        messages.hosts_silent(why=why.message, hosts=sorted(one.host for one in those)[:_NAMED], n=len(those),
                              said=those[0].why or None)
        for why, those in by_why.items()
    ]  # fmt: skip
    if picture.absent:
        notes.append(messages.pods_absent(hosts=sorted(picture.absent)[:_NAMED], n=len(picture.absent)))
    return [Diagnostic(level="degraded", message=one) for one in notes]


def _doubled(ranks: Sequence[RankRow]) -> list[int]:
    """Ranks that two hosts claim: one of the hosts is wrong, and the data cannot say which."""
    seen: dict[tuple[str, int], str] = {}
    return sorted({row.rank for row in ranks if seen.setdefault((row.name, row.rank), row.host) != row.host})


def _table(ranks: Sequence[RankRow]) -> Table:
    columns = (
        Column(key="rank", title=messages.RANK, kind="count"), Column(key="host", title=messages.HOST, kind="name"),
        Column(key="step", title=messages.STEP, kind="count"), Column(key="own_ns", title=messages.OWN, kind="ns"),
        Column(key="step_ns", title=messages.STEP_TIME, kind="ns"),
        Column(key="collective_ns", title=messages.COLLECTIVES, kind="ns"),
        Column(key="wait_ns", title=messages.DATA, kind="ns"), Column(key="age_ns", title=messages.AGE, kind="ns"),
        Column(key="alive", title=messages.ALIVE, kind="flag"), Column(key="job", title=messages.JOB, kind="name"),
        Column(key="baseline_ns", title=messages.BASELINE, kind="ns"),
    )  # fmt: skip
    rows = [
        (row.rank, row.host, row.step, row.own_ns, row.step_ns, row.collective_ns, row.wait_ns, row.age_ns, row.alive,
         row.name, row.baseline_ns) for row in ranks
    ]  # fmt: skip
    return Table(key="ranks", title=messages.SLOWEST_FIRST, columns=columns, rows=rows)


def silent_table(picture: JobsPicture) -> Table:
    """All hosts that did not answer, each with the reason."""
    columns = (
        Column(key="host", title=messages.HOST, kind="name"), Column(key="silence", title=messages.WHY, kind="name"),
        Column(key="said", title=messages.SAID, kind="name"),
    )  # fmt: skip
    ordered = sorted(picture.silent, key=lambda one: one.host)
    rows = [(one.host, one.silence.value, one.why or None) for one in ordered]
    rows += [(host, phase, None) for host, phase in sorted(picture.absent.items())]
    return Table(key="silent_hosts", title=messages.SILENT, columns=columns, rows=rows)
