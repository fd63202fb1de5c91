"""Use case: capture a job on many hosts, at the same step on every rank or not at all.

A capture has two phases: ask all hosts for their ranks' steps, then choose a later step and tell all hosts. If a rank
does not accept, or has passed the step, the capture is ended on all hosts, so no host is left with half a capture.
Ranks count the steps, so clocks of hosts do not matter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from hermes.base.errors import QueryError
from hermes.base.message import Text
from hermes.fleet.hosts.transport import Answer, Transport, each_job
from hermes.fleet.job import messages
from hermes.fleet.job.choose_ranks import chosen
from hermes.fleet.job.find_slow_jobs import by_job
from hermes.fleet.job.merged_report import Folder, MergedReport, Part, one_report
from hermes.fleet.job.parse_host_answers import (
    JOB_ID,
    GarbledError,
    document_of,
    message_of_host,
    silence_of,
    whole_number,
)
from hermes.fleet.job.status import JobsPicture, SilentHost

_STATUS, _CAPTURE = "hermes.profile-status/1", "hermes.capture/1"
_LEADS = (1, 4, 16)
"""Factors for how far ahead the step is: for the first try, and after tries in which a rank had passed the step."""
_LEAD_NS, _LEAD_STEPS = 1_000_000_000, 3
_ROUNDS = 3
"""Multiple of the first round's time that the step is ahead: that round itself, the round that tells the ranks, and a
reserve."""
_END_S, _SLACK = 120.0, 20
_ANALYSIS_S = 600.0
_LARGEST_REPORT = 64 << 20
_FINDINGS = 3
UP = frozenset({"accepted", "started", "finished"})
"""States of a rank that has accepted a capture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsCaptureWish:
    """The settings of a capture on many hosts. `words` are further options of `hermes profile`, passed on unchanged."""

    ranks: str = ""
    steps: int = 2
    level: str = "standard"
    words: tuple[str, ...] = ()
    analyzes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSaid:
    """The last answer of a rank, or of its host, about the capture."""

    rank: int
    host: str
    state: str
    text: str = ""


@dataclass(slots=True, kw_only=True)
class HostPart:
    """One host's part of a capture: its job, its requested ranks, its folder, and the content of its report."""

    host: str
    job: str
    ranks: tuple[int, ...]
    folder: str = ""
    report: str = ""
    verdict: Text = ""
    findings: tuple[Text, ...] = ()


@dataclass(slots=True, kw_only=True)
class Captured:
    """The result of a capture on many hosts. `revoked` says why there is no capture; it is empty if there is one."""

    name: str
    start_step: int = 0
    steps: int = 0
    parts: dict[Part, HostPart] = field(default_factory=dict)
    said: dict[tuple[str, int], RankSaid] = field(default_factory=dict)
    silent: list[SilentHost] = field(default_factory=list)
    revoked: Text = ""
    reduced: MergedReport = field(default_factory=MergedReport)

    @property
    def whole(self) -> bool:
        """Whether every requested rank has its trace, and every host its report."""
        return bool(self.said) and not self.revoked and not self.silent and all(
            one.state == "finished" for one in self.said.values()
        )  # fmt: skip


class Capturing:
    """A capture under way, phase by phase."""

    def __init__(
        self,
        transport: Transport,
        hermes: Sequence[str],
        wish: HostsCaptureWish,
        within_s: float,
        say: Callable[[Text], None],
    ) -> None:
        self._transport, self._hermes, self._wish, self._within_s = transport, tuple(hermes), wish, within_s
        self._say = say
        self._before: tuple[SilentHost, ...] = ()

    async def run(self, picture: JobsPicture) -> Captured:
        """Make the capture, from the hosts' answers about jobs to the reports. Raises `QueryError` unless one job is
        meant."""
        made = _meant(picture, self._wish)
        self._before = tuple(made.silent)
        for lead in _LEADS:
            where = await self._where(made)
            if not where or not await self._tell(made, where, lead):
                break
            not_up = [one for key, one in made.said.items() if key in where.at and one.state not in UP]
            late = [one for one in not_up if one.state == "late"]
            if not not_up:
                await self._follow(made, where)
                break
            await self._revoke(made)
            made.revoked = messages.revoked(
                ranks=[one.rank for one in not_up], hosts=sorted({one.host for one in not_up}),
                said=next((one.text or one.state for one in not_up), ""),
            )  # fmt: skip
            if len(late) < len(not_up):
                break
            self._say(messages.passed_again(ranks=[one.rank for one in late], first=made.start_step))
        return made

    async def _ask(
        self, made: Captured, words: Mapping[Part, Sequence[str]], schema: str, within_s: float, most: int = 4 << 20
    ) -> dict[Part, Mapping[str, Any]]:
        """The documents of the hosts; a host without a document is noted as silent, with its ranks."""
        found: dict[Part, Mapping[str, Any]] = {}
        orders = {part: (*self._hermes, *tail) for part, tail in words.items()}
        async for answer in each_job(self._transport, orders, within_s=within_s, most_bytes=most):
            part = answer.host, answer.job
            try:
                found[part] = _document(answer, schema)
            except GarbledError as garbled:
                why = (answer.why or str(garbled))[:200]
                if answer.host not in {one.host for one in made.silent}:
                    made.silent.append(SilentHost(host=answer.host, silence=silence_of(answer), why=why))
                for rank in made.parts[part].ranks:
                    if (one := made.said.get((answer.host, rank))) and one.state != "finished":
                        made.said[answer.host, rank] = replace(one, state="silent", text=why)
        return found

    async def _where(self, made: Captured) -> _Where | None:
        """Phase one: the current steps of all ranks. Hosts without an answer are left out, and named."""
        made.silent = list(self._before)
        made.revoked = ""
        made.said = {(part.host, rank): RankSaid(rank=rank, host=part.host, state="none")
                     for part in made.parts.values() for rank in part.ranks}  # fmt: skip
        begin = time.monotonic_ns()
        words = {key: ("profile", part.job, "--status", "--format", "json") for key, part in made.parts.items()}
        found = await self._ask(made, words, _STATUS, self._within_s)
        at: dict[tuple[str, int], tuple[int, int]] = {}
        for key, document in found.items():
            at |= {(key[0], rank): place for rank, place in _places(document, made.parts[key].ranks).items()}
        for place, one in made.said.items():
            if place not in at and one.state == "none":
                made.said[place] = replace(one, state="gone")
        return _Where(at=at, round_ns=time.monotonic_ns() - begin) if at else None

    async def _tell(self, made: Captured, where: _Where, lead: int) -> bool:
        """Phase two: choose a step and tell all remaining hosts; returns whether any host was told."""
        made.start_step, made.steps = where.start(lead), self._wish.steps
        self._say(messages.telling(n=len(where.at), first=made.start_step))
        words: dict[Part, Sequence[str]] = {}
        for key, part in made.parts.items():
            ranks = [rank for rank in part.ranks if (part.host, rank) in where.at]
            if ranks:
                words[key] = (
                    "profile", part.job, "--ranks", ",".join(map(str, ranks)), "--start-step", str(made.start_step),
                    "--steps", str(made.steps), "--level", self._wish.level, *self._wish.words, "--no-wait",
                    "--format", "json",
                )  # fmt: skip
        # A rank checks for requests after each step.
        within = self._within_s + 4 * where.slowest_ns / 1e9
        self._take(made, await self._ask(made, words, _CAPTURE, within))
        return bool(words)

    async def _follow(self, made: Captured, where: _Where) -> None:
        """Wait for the last answers, then let each host analyse its capture."""
        ahead_s = (made.start_step - where.last + _SLACK * made.steps) * where.slowest_ns / 1e9
        words: dict[Part, Sequence[str]] = {
            key: ("profile", part.job, "--follow", "--start-step", str(made.start_step), "--format", "json")
            for key, part in made.parts.items() if self._has(made, part, UP)
        }  # fmt: skip
        self._take(made, await self._ask(made, words, _CAPTURE, 3 * ahead_s + _END_S))
        if not self._wish.analyzes:
            return
        done = {key: part for key, part in made.parts.items() if part.folder and self._has(made, part, {"finished"})}
        words = {key: ("analyze", part.folder, "-o", part.report, "--format", "json") for key, part in done.items()}
        self._say(messages.analysing(n=len({host for host, _ in words})))
        reports = await self._ask(made, words, "hermes.report/1", _ANALYSIS_S, _LARGEST_REPORT)
        for key, report in reports.items():
            part = made.parts[key]
            part.verdict, part.findings = _verdict(report)
        folders = {key: Folder(path=done[key].folder, ranks=frozenset(done[key].ranks)) for key in sorted(reports)}
        if folders:
            self._say(messages.REDUCING)
            made.reduced = await one_report(self._transport, self._hermes, folders)

    async def _revoke(self, made: Captured) -> None:
        """End the capture on all hosts that may have accepted it, including hosts whose answer did not arrive."""
        orders = {
            key: (*self._hermes, "profile", part.job, "--cancel", "--start-step", str(made.start_step))
            for key, part in made.parts.items()
        }  # fmt: skip
        async for _ in each_job(self._transport, orders, within_s=self._within_s):
            pass

    def _take(self, made: Captured, documents: Mapping[Part, Mapping[str, Any]]) -> None:
        for key, document in documents.items():
            part = made.parts[key]
            part.folder, part.report = _folder(document.get("folder")), _folder(document.get("report"))
            for one in _said(part.host, document):
                if one.rank in part.ranks:
                    made.said[part.host, one.rank] = one

    def _has(self, made: Captured, part: HostPart, states: frozenset[str] | set[str]) -> bool:
        return any(made.said[part.host, rank].state in states for rank in part.ranks)


async def ended(
    transport: Transport, hermes: Sequence[str], picture: JobsPicture, within_s: float
) -> tuple[int, list[SilentHost]]:
    """End the captures under way of these jobs: returns the number of ended captures, and the silent hosts."""
    silent: list[SilentHost] = []
    count = 0
    orders = {(job.host, job.job): (*hermes, "profile", job.job, "--cancel")
              for job in picture.jobs if JOB_ID.fullmatch(job.job)}  # fmt: skip
    async for answer in each_job(transport, orders, within_s=within_s):
        if answer.code == 0:
            count += 1
        else:
            why = answer.why or answer.stderr.strip()
            silent.append(SilentHost(host=answer.host, silence=silence_of(answer), why=why[:200]))
    return count, silent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """Last step and step time (ns) by host and rank; and how long it took to learn them from all hosts."""

    at: Mapping[tuple[str, int], tuple[int, int]]
    round_ns: int

    @property
    def last(self) -> int:
        return max(step for step, _ in self.at.values())

    @property
    def slowest_ns(self) -> int:
        return max(wall for _, wall in self.at.values())

    def start(self, lead: int) -> int:
        """A step that no rank can have begun when the last rank hears of it."""
        fastest = max(min(wall for _, wall in self.at.values()), 1)
        ahead_ns = lead * (_ROUNDS * self.round_ns + _LEAD_NS)
        return self.last + math.ceil(ahead_ns / fastest) + lead * _LEAD_STEPS


def _meant(picture: JobsPicture, wish: HostsCaptureWish) -> Captured:
    """The hosts' parts that have the wished ranks. Raises `QueryError` unless all parts belong to one job."""
    groups = dict(by_job(picture.ranks))
    if len(groups) != 1:
        what = messages.several_jobs(names=sorted(groups)) if groups else messages.NOBODY_RUNS
        raise QueryError(what, where="hermes fleet profile", hint=messages.DO_NAME_JOB)
    ((name, rows),) = groups.items()
    made = Captured(name=name, silent=list(picture.silent))
    for row in chosen(wish.ranks, rows):
        if not JOB_ID.fullmatch(row.job):
            continue
        part = made.parts.setdefault((row.host, row.job), HostPart(host=row.host, job=row.job, ranks=()))
        part.ranks = (*part.ranks, row.rank)
    return made


def _document(answer: Answer, schema: str) -> Mapping[str, Any]:
    if answer.silence is not None:
        raise GarbledError(answer.why)
    return document_of(answer, schema)


def _places(document: Mapping[str, Any], ranks: Sequence[int]) -> dict[int, tuple[int, int]]:
    found = {}
    for row in _rows(document):
        rank, step, wall = (
            whole_number(row.get("rank")),
            whole_number(row.get("step")),
            whole_number(row.get("step_ns")),
        )
        if rank is not None and rank in ranks and step is not None and wall is not None and row.get("alive") is True:
            found[rank] = (step, wall)
    return found


def _said(host: str, document: Mapping[str, Any]) -> list[RankSaid]:
    return [
        RankSaid(rank=rank, host=host, state=str(row.get("state"))[:20], text=str(row.get("text") or "")[:200])
        for row in _rows(document) if (rank := whole_number(row.get("rank"))) is not None
    ]  # fmt: skip


def _rows(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = document.get("ranks")
    return [row for row in rows[:512] if isinstance(row, dict)] if isinstance(rows, list) else []


def _folder(value: object) -> str:
    """A host's folder in a form that is safe to send back to the host: absolute, and no option of a program."""
    if not isinstance(value, str) or not value.isprintable() or len(value) >= 4_096 or not value.startswith("/"):
        return ""
    return "" if ".." in PurePosixPath(value).parts else value


def _verdict(report: Mapping[str, Any]) -> tuple[Text, tuple[Text, ...]]:
    try:
        verdict = message_of_host(report["verdict"]["message"])
        return verdict, tuple(message_of_host(one["message"]) for one in report.get("findings", ())[:_FINDINGS])
    except (GarbledError, LookupError, TypeError, AttributeError):
        return "", ()
