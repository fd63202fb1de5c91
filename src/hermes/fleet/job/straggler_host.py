"""Use case: find differences on a straggler's host: other processes, pressure, clock rate, temperature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hermes.base.message import Message
from hermes.fleet.hosts.transport import Answer, Transport, each_job
from hermes.fleet.job import messages
from hermes.fleet.job.find_slow_jobs import Straggler
from hermes.fleet.job.parse_host_answers import JOB_ID, GarbledError, document_of, whole_number
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Action, Blame, Finding
from hermes.model.leaf import Risk

_SCHEMA = "hermes.host/1"
_OTHERS = 4
"""Number of hosts that the straggler's host is compared with."""
_SLOWER, _HOTTER, _PRESSED = 0.9, 10.0, 0.10
_TIMES = 3.0
_DELAYED = 0.02
_FEW = {"retransmits": 100, "dropped packets": 100}
"""Errors of which a healthy host has some; of other kinds it has none."""
_LONGEST = 200
_MOST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNow:
    """The state of a host from its answer, checked value by value."""

    host: str
    processes: tuple[Mapping[str, Any], ...]
    pressure: Mapping[str, float]
    errors: Mapping[str, int]
    devices: tuple[Mapping[str, Any], ...]
    delays: Mapping[int, tuple[int, int | None]]


async def on_hosts(
    transport: Transport, hermes: Sequence[str], late: Sequence[tuple[Straggler, Sequence[Any]]], within_s: float
) -> list[Finding]:
    """For each straggler, the differences of its host; `late` has the rows of its job. Without a straggler no host is
    asked."""
    found: list[Finding] = []
    for straggler, rows in late:
        own = straggler.row
        others = {row.host: row.job for row in rows if row.host != own.host}
        asked = {own.host: own.job, **dict(list(others.items())[:_OTHERS])}
        orders = {(host, job): (*hermes, "fleet", "host", job) for host, job in asked.items() if JOB_ID.fullmatch(job)}
        said: dict[str, HostNow] = {}
        async for answer in each_job(transport, orders, within_s=within_s):
            # A host without an answer stays in the picture, without its state.
            try:
                said[answer.host] = read(answer)
            except GarbledError:
                continue
        if own.host in said:
            found += judged(straggler, said.pop(own.host), list(said.values()))
    return found


def read(answer: Answer) -> HostNow:
    """The host state in an answer of `hermes fleet host`. Raises `GarbledError`."""
    if answer.silence is not None:
        raise GarbledError(answer.why)
    found = document_of(answer, _SCHEMA)
    delays = {}
    for row in _rows(found.get("ranks")):
        rank, delay = whole_number(row.get("rank")), whole_number(row.get("delay_ns"))
        if rank is not None and delay is not None:
            delays[rank] = (delay, whole_number(row.get("risen_ns")))
    return HostNow(
        host=answer.host, processes=tuple(_rows(found.get("processes"))), pressure=_numbers(found.get("pressure")),
        errors={name: round(value) for name, value in _numbers(found.get("errors")).items()},
        devices=tuple(_rows(found.get("devices"))), delays=delays,
    )  # fmt: skip


def judged(late: Straggler, own: HostNow, others: Sequence[HostNow]) -> list[Finding]:
    """The findings on the straggler's host. A foreign process comes first, since you can stop it."""
    more = late.own_ns - late.others_ns
    delay, risen = own.delays.get(late.row.rank, (0, None))
    found = [*_processes(late, own, min(delay, more), risen)] if delay >= _DELAYED * (late.row.step_ns or more) else []
    return [*found, *(_finding(late, message) for message in _differences(own, others))]


def _processes(late: Straggler, own: HostNow, gain: int, risen: int | None) -> Iterator[Finding]:
    """Findings on processes beside the job, where the rank waits for cores; stopping them gives the wait back."""
    for row in own.processes:
        pid, age, cores = whole_number(row.get("pid")), whole_number(row.get("age_ns")), _number(row.get("cores"))
        if pid is None or age is None or cores is None:
            continue
        message = messages.foreign_process(
            host=own.host, pid=str(pid), command=_word(row.get("command")), owner=_word(row.get("owner")),
            cores=cores, age=age, gain=gain, risen=risen,
        )  # fmt: skip
        yield _finding(late, message, gain)
    if not own.processes:
        yield _finding(late, messages.waits_for_cores(host=own.host, rank=late.row.rank, delay=gain, risen=risen), gain)


def _differences(own: HostNow, others: Sequence[HostNow]) -> Iterator[Message]:
    for resource, share in own.pressure.items():
        usual = _usual([one.pressure[resource] for one in others if resource in one.pressure])
        if share >= _PRESSED and usual is not None and share >= _TIMES * usual:
            yield messages.pressed(
                host=own.host, resource=_word(resource), share=min(share, 1.0), others=min(usual, 1.0)
            )
    for name, count in own.errors.items():
        usual = _usual([float(one.errors[name]) for one in others if name in one.errors])
        if usual is not None and count > max(_TIMES * usual, _FEW.get(name, 0)):
            yield messages.counts_errors(host=own.host, n=count, kind=_word(name))
    for device in own.devices:
        yield from _device(own.host, device, [row for one in others for row in one.devices])


def _device(host: str, own: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    name = _word(own.get("device"))
    hertz, usual = _number(own.get("hertz")), _usual(_known(others, "hertz"))
    if hertz is not None and usual and hertz < _SLOWER * usual:
        yield messages.slow_clock(host=host, device=name, mhz=round(hertz / 1e6), others=round(usual / 1e6))
    celsius, cool = _number(own.get("celsius")), _usual(_known(others, "celsius"))
    if celsius is not None and cool is not None and celsius >= cool + _HOTTER:
        yield messages.hot(host=host, device=name, degrees=round(celsius), others=round(cool))
    errors, few = _number(own.get("errors")), _usual(_known(others, "errors"))
    if errors and few is not None and errors >= _TIMES * max(few, 1.0):
        yield messages.counts_errors(host=host, n=round(errors), kind=name)


def _finding(late: Straggler, message: Message, gain: int | None = None) -> Finding:
    return Finding(
        code="what else", about=Risk.SLOWER, confidence=confidence("fleet.straggler"), message=message, cost_ns=gain,
        ranks=(late.row.rank,), blames=(Blame.of_rank(late.row.rank),),
        actions=(Action(title=messages.DO_STOP_OR_MOVE, do="", verify="", risk="", source=""),) if gain else (),
    )  # fmt: skip


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value[:_MOST] if isinstance(one, dict)] if isinstance(value, list) else []


def _numbers(value: object) -> dict[str, float]:
    pairs = list(value.items())[:_MOST] if isinstance(value, dict) else []
    return {_word(name): number for name, one in pairs if (number := _number(one)) is not None}


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e15 else None  # type: ignore[arg-type, operator]


def _known(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [found for row in rows if (found := _number(row.get(name))) is not None]


def _usual(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _word(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""
