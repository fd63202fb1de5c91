"""Parses the answers of hosts into rows of ranks. Each value is checked; an invalid one drops only its own rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermes.base.message import Text
from hermes.base.say import read_foreign
from hermes.fleet.hosts.transport import Answer, Silence

WATCH = "hermes.watch/1"
_USABLE = (0, 1, 3)
"""Exit codes of commands that print an answer."""
_MOST_JOBS, _MOST_RANKS, _MOST_SAID = 64, 512, 4
_LONGEST_NAME, _LONGEST_TEXT = 120, 400
_MOST = 1 << 62
_NUMBERED = re.compile(r"(.+?)-\d+-\d+")
"""The pattern of a job id: name, process number and start time."""

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
"""The pattern of a job id that is safe to send back to its host: never an option."""


class GarbledError(ValueError):
    """A host's answer does not have the expected form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One rank, as its host reports it. `age_ns` is the time since its last step ended, by the host's own clock.

    `own_ns`, `collective_ns` and `wait_ns` are a step's time for own work, inside collectives, and waiting for data.
    `longest_ns` is the longest recent step, if the source reports it.
    """

    host: str
    job: str
    name: str
    rank: int
    step: int
    step_ns: int | None
    baseline_ns: int | None
    own_ns: int | None
    collective_ns: int | None
    wait_ns: int | None
    age_ns: int | None
    alive: bool
    longest_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job, as its host reports it. `name` is the same on all hosts: the launcher's number of the job, or the
    script."""

    host: str
    job: str
    name: str
    slow: bool
    stalled: Text | None
    said: tuple[Text, ...]
    ranks: tuple[RankRow, ...]


def document_of(answer: Answer, schema: str) -> Mapping[str, Any]:
    """The JSON object of an answer. Raises `GarbledError` for an answer of another form."""
    if not _printed(answer):
        raise GarbledError(answer.stderr.strip().splitlines()[0] if answer.stderr.strip() else f"exit {answer.code}")
    try:
        found = json.loads(answer.stdout)
    except (ValueError, RecursionError) as broken:
        raise GarbledError("no JSON") from broken
    if not isinstance(found, dict) or found.get("schema") != schema:
        raise GarbledError(f"no {schema}")
    return found


def silence_of(answer: Answer) -> Silence:
    """Why an answer has no document: the command failed, or its output is no document."""
    return answer.silence or (Silence.GARBLED if _printed(answer) else Silence.FAILED)


def _printed(answer: Answer) -> bool:
    return answer.code in _USABLE and bool(answer.stdout)


def jobs_of(answer: Answer) -> list[JobRow]:
    """The jobs in a host's answer. Raises `GarbledError`."""
    found = document_of(answer, WATCH)
    try:
        now = whole_number(found.get("now_ns"))
        return [_job(answer.host, one, now) for one in found["jobs"][:_MOST_JOBS]]
    except (LookupError, TypeError, AttributeError) as broken:
        raise GarbledError(f"no {WATCH}") from broken


def clock_of(answer: Answer) -> tuple[int, int] | None:
    """The least and the most that a host's clock can be ahead of this host's (ns); None if the answer has no time.

    The host read its clock at some moment while it was asked.
    """
    now = whole_number(document_of(answer, WATCH).get("now_ns"))
    if now is None or not answer.at_ns:
        return None
    return now - answer.at_ns, now - answer.at_ns + round(answer.seconds * 1e9)


def _job(host: str, one: Mapping[str, Any], now: int | None) -> JobRow:
    job = text(one["job"])
    name = name_of(job, text(one.get("launch") or ""))
    ranks = tuple(_ranks(host, job, name, one["ranks"], now))
    stalled = one.get("stalled")
    return JobRow(
        host=host, job=job, name=name, slow=one.get("slow") is True,
        stalled=None if stalled is None else message_of_host(stalled), ranks=ranks,
        said=tuple(message_of_host(line) for line in one.get("said", ())[-_MOST_SAID:]),
    )  # fmt: skip


def name_of(job: str, launch: str) -> str:
    """The name of a job that is the same on all hosts."""
    numbered = _NUMBERED.fullmatch(job)
    return launch or (numbered[1] if numbered else job)


def _ranks(host: str, job: str, name: str, rows: list[Mapping[str, Any]], now: int | None) -> Iterator[RankRow]:
    for row in rows[:_MOST_RANKS]:
        rank, step, end = whole_number(row["rank"]), whole_number(row["step"]), whole_number(row.get("end_ns"))
        if rank is None or step is None:
            raise GarbledError(f"no {WATCH}")
        split = row.get("split_ns")
        yield RankRow(
            host=host, job=job, name=name, rank=rank, step=step, step_ns=whole_number(row.get("step_ns")),
            baseline_ns=whole_number(row.get("baseline_ns")), own_ns=whole_number(row.get("own_ns")),
            collective_ns=whole_number(row.get("collective_ns")),
            wait_ns=whole_number(split.get("data wait")) if isinstance(split, dict) else None,
            age_ns=None if now is None or end is None else max(now - end, 0), alive=row.get("alive") is not False,
            longest_ns=whole_number(row.get("longest_ns")),
        )  # fmt: skip


def whole_number(value: object) -> int | None:
    """A whole number from 0 on; None for any other value."""
    return value if type(value) is int and 0 <= value < _MOST else None


def text(value: object) -> str:
    """A text of bounded length. Raises `GarbledError` for any other value."""
    if not isinstance(value, str):
        raise GarbledError("no text")
    return value[:_LONGEST_NAME]


def message_of_host(value: Any) -> Text:
    """A host's message, else its text. Raises `GarbledError` for any other value."""
    try:
        return read_foreign(value, _LONGEST_TEXT)
    except ValueError as wrong:
        raise GarbledError("no text") from wrong
