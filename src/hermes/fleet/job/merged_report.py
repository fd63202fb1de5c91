"""Use case: make one report of captures that lie on many hosts, equal to `hermes analyze` on all traces together.

Hosts measure their own ranks; measures travel as JSON text, with the rows of a step or two that a critical path needs.
Traces stay on their hosts. A host's answer is bounded, every field is checked, and nothing is unpickled: a host that is
silent or sends wrong data costs only its own ranks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from hermes.base.errors import InputError
from hermes.base.message import Text
from hermes.fleet.hosts.transport import Answer, Transport, each_job
from hermes.fleet.job.parse_host_answers import GarbledError, document_of, silence_of
from hermes.fleet.job.status import SilentHost
from hermes.model.report import Report

_ANSWERS, _QUESTIONS = "hermes.rank-answers/1", "hermes.rank-questions/1"
_LARGEST = 256 << 20
_PATIENCE_S = 600.0

Part = tuple[str, str]
"""A host, and one of its jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One host's capture folder, and its ranks."""

    path: str
    ranks: frozenset[int]


@dataclass(slots=True, kw_only=True)
class MergedReport:
    """The report of all ranks; None if `why` gives a reason. `silent` are hosts that did not answer."""

    report: Report | None = None
    why: Text = ""
    silent: list[SilentHost] = field(default_factory=list)


async def one_report(transport: Transport, hermes: Sequence[str], folders: Mapping[Part, Folder]) -> MergedReport:
    """Ask the hosts for their measures, and make one report on this host."""
    from hermes.profiles.api import RemoteRanks, analyze, code, loaded_elsewhere

    made = MergedReport()
    asking = _Asking(transport, tuple(hermes), folders, made, asyncio.get_running_loop(), code())
    said = await asking.first()
    names = {f"{host} {job}": (host, job) for host, job in said}
    texts = {name: said[part] for name, part in names.items()}
    wanted = {name: folders[part].ranks for name, part in names.items()}
    loaded, outlines, false = loaded_elsewhere(texts, wanted)
    for name, why in false.items():
        asking.note(names[name][0], why)
    if not loaded.ranks:
        made.why = "no rank"
        return made
    owners = {rank: part for part, folder in folders.items() for rank in folder.ranks}
    engine = RemoteRanks(asking.ask_for(owners), outlines)
    try:
        made.report = await asyncio.to_thread(analyze, loaded, engine=engine)
    except InputError as none_left:
        made.why = none_left.what
    except Exception as false_numbers:  # noqa: BLE001 - well-formed numbers of a host may still make no sense
        made.why = type(false_numbers).__name__
    return made


class _Asking:
    """The questions to hosts, from the event loop and from the analysing thread."""

    def __init__(
        self, transport: Transport, hermes: tuple[str, ...], folders: Mapping[Part, Folder], made: MergedReport,
        loop: asyncio.AbstractEventLoop, code: str,
    ) -> None:  # fmt: skip
        self._transport, self._hermes, self._folders, self._made, self._loop = transport, hermes, folders, made, loop
        self._code = code

    async def first(self) -> dict[Part, str]:
        """The first answer of each folder, if the host's Hermes runs the same code."""
        found: dict[Part, str] = {}
        async for answer in self._each({part: b"" for part in self._folders}):
            try:
                document = _document(answer)
                if document.get("code") != self._code:
                    raise GarbledError("another version of Hermes")
                found[answer.host, answer.job] = _text(document.get("folder"))
            except GarbledError as garbled:
                self._silent(answer, garbled)
        return {part: found[part] for part in self._folders if part in found}

    def ask_for(self, owners: Mapping[int, Part]) -> _Ask:
        """A function that asks the host of each rank, from a thread beside the event loop."""
        return _Ask(self, owners)

    def in_thread(self, question: str, by_part: Mapping[Part, Mapping[int, str]]) -> dict[int, str]:
        """The answer of each rank to a question."""
        given = {part: json.dumps({"schema": _QUESTIONS, "question": question, "ranks": ranks}).encode()
                 for part, ranks in by_part.items()}  # fmt: skip
        asked = {part: frozenset(ranks) for part, ranks in by_part.items()}
        return asyncio.run_coroutine_threadsafe(self._answers(given, asked), self._loop).result()

    async def _answers(self, given: Mapping[Part, bytes], asked: Mapping[Part, frozenset[int]]) -> dict[int, str]:
        found: dict[int, str] = {}
        async for answer in self._each(given):
            try:
                ranks = _document(answer).get("ranks")
                if not isinstance(ranks, dict):
                    raise GarbledError(_ANSWERS)
            except GarbledError as garbled:
                self._silent(answer, garbled)
                continue
            for rank in asked[answer.host, answer.job]:
                if isinstance(text := ranks.get(str(rank)), str):
                    found[rank] = text
        return found

    def _each(self, given: Mapping[Part, bytes]) -> AsyncIterator[Answer]:
        orders = {part: (*self._hermes, "fleet", "measure", self._folders[part].path) for part in given}
        return each_job(self._transport, orders, within_s=_PATIENCE_S, most_bytes=_LARGEST, given=given)

    def _silent(self, answer: Answer, garbled: GarbledError) -> None:
        why = (answer.why or str(garbled))[:200]
        self._made.silent.append(SilentHost(host=answer.host, silence=silence_of(answer), why=why))

    def note(self, host: str, why: str) -> None:
        """Note that a host's text is no valid answer."""
        self._silent(Answer(host=host, code=0, stdout=b"?"), GarbledError(why))


class _Ask:
    """The question function in the form that `RemoteRanks` calls."""

    def __init__(self, asking: _Asking, owners: Mapping[int, Part]) -> None:
        self._asking, self._owners = asking, owners

    def __call__(self, question: str, given: Mapping[int, str]) -> Mapping[int, str]:
        by_part: dict[Part, dict[int, str]] = {}
        for rank, text in given.items():
            by_part.setdefault(self._owners[rank], {})[rank] = text
        return self._asking.in_thread(question, by_part)


def _document(answer: Answer) -> Mapping[str, object]:
    if answer.silence is not None:
        raise GarbledError(answer.why)
    return document_of(answer, _ANSWERS)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise GarbledError(_ANSWERS)
    return value
