"""Turns a trace drawn as ASCII art into canonical tables, for tests that can be read at a glance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from hermes.base.errors import HermesError
from hermes.model.tables import TABLES, schema_of

_LINE = re.compile(
    r"^rank(?P<rank>\d+)\.(?P<lane>[a-z_]+)(?::(?P<group>\w+))?(?:#(?P<step>\d+))?(?:@(?P<stream>\d+))?\s+(?P<cells>\S+)$"
)
_CELLS = re.compile(r"\[(?P<inside>[#A-Za-z]*)\]|(?P<run>#+|([A-Za-z])\3*)|(?P<idle>\.+)|(?P<bad>.)")

_STREAM = {"compute": 1, "comm": 2, "copy": 3, "wait": 4}
_UNIT = {"compute": "cube", "comm": "comm", "copy": "copy", "wait": "wait"}
_CALLS = {"call": "launch", "sync": "deviceSynchronize"}
_HOST = ("host", "python", *_CALLS)
_LANES = ("step", "gc", *_HOST, *_STREAM)
_FIRST_TID = 100


class DrawingError(HermesError):
    """The drawing cannot be read; `where` names its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    rank: int
    lane: str
    name: str
    group: str
    number: int
    start_ns: int
    dur_ns: int
    step: int | None = None
    correlation: int | None = None
    launch_ns: int | None = None


def draw(text: str, *, scale_ns: int = 1_000) -> dict[str, pl.DataFrame]:
    """All canonical tables of a drawing; tables without a row in it are empty.

    One line is one lane, `rank<N>.<lane>` and then its cells, each `scale_ns` nanoseconds long:

        rank0.step#5   [########]
        rank0.compute  AABB......
        rank0.comm     ..######..

    Lanes: `step` (`#n` numbers the first one), `host`, `python`, `call` and `sync` (`@n` is the thread), `compute`,
    `comm`, `copy`, `wait` (`@n` is the stream), `gc`. A `call` launches the task of its letter, the first the first; a
    `sync` waits for the device. A run of one letter is one event, named after the letter. `#` stands for a nameless
    event, and `.` for nothing. `[####]` encloses one event, brackets included: two events can then touch. `comm` makes
    rows of `comm_op` and of `kernel`; `comm:tp` names its group (else `world`), whose operations are numbered in order
    of start. A row belongs to the step that its start lies in. Raises `DrawingError`.
    """
    if scale_ns < 1:
        raise DrawingError(f"a cell cannot be {scale_ns} ns long", hint="scale_ns is a whole number from 1 on")
    events = [event for number, line in _lines(text) for event in _events(number, line, scale_ns)]
    if not events and not any(True for _ in _lines(text)):
        raise DrawingError("the drawing is empty", hint="write a line such as `rank0.compute  ####....`")
    ranks = sorted({_parsed(number, line)[0] for number, line in _lines(text)})
    steps = _steps(events)
    placed = [replace(event, step=_step_of(event, steps)) for event in events]
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
    for rank in ranks:
        mine = _linked(sorted((event for event in placed if event.rank == rank), key=_order))
        rows["rank"].append(_rank_row(rank, len(ranks)))
        for table, make in _MAKERS.items():
            rows[table].extend(make(mine))
    rows["group"] = list(_group_rows(placed))
    return {name: pl.DataFrame(rows[name], schema=schema_of(table)) for name, table in TABLES.items()}


def _lines(text: str) -> Iterable[tuple[int, str]]:
    return ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def _parsed(number: int, line: str) -> tuple[int, re.Match[str]]:
    found = _LINE.match(line)
    if found is None:
        raise DrawingError(
            f"cannot read {line[:60]!r}", where=f"line {number}", hint="write `rank<N>.<lane>  ####....`"
        )
    lane = found["lane"]
    if lane not in _LANES:
        raise DrawingError(f"there is no lane {lane!r}", where=f"line {number}", hint=f"lanes: {', '.join(_LANES)}")
    _refuse_misplaced(number, found)
    return int(found["rank"]), found


def _refuse_misplaced(number: int, found: re.Match[str]) -> None:
    lane = found["lane"]
    for part, mark, allowed in (
        ("group", ":", ("comm",)),
        ("step", "#", ("step",)),
        ("stream", "@", (*_STREAM, *_HOST, "gc")),
    ):
        if found[part] is not None and lane not in allowed:
            raise DrawingError(
                f"a lane {lane!r} takes no {part}",
                where=f"line {number}",
                hint=f"`{mark}{found[part]}` belongs to: {', '.join(allowed)}",
            )


def _events(number: int, line: str, scale_ns: int) -> Iterable[_Event]:
    rank, found = _parsed(number, line)
    lane = found["lane"]
    step = int(found["step"] or 0)
    for name, start, cells in _runs(number, found["cells"]):
        yield _Event(
            rank=rank,
            lane=lane,
            name=name,
            group=found["group"] or "world",
            number=step if lane == "step" else int(found["stream"] or _STREAM.get(lane, _FIRST_TID + rank)),
            start_ns=start * scale_ns,
            dur_ns=cells * scale_ns,
        )
        step += 1


def _runs(number: int, cells: str) -> Iterable[tuple[str, int, int]]:
    """Name (empty for a nameless one), first cell and number of cells of every event of a lane."""
    for part in _CELLS.finditer(cells):
        place = f"line {number}, cell {part.start()}"
        if part["bad"]:
            raise DrawingError(
                f"{part['bad']!r} is no cell",
                where=place,
                hint="use `#`, a letter, `.`, or `[` and `]` in pairs",
            )
        inside = part["inside"]
        if inside and len(set(inside)) > 1:
            raise DrawingError(f"{part[0]!r} holds several events", where=place, hint="one pair of brackets each")
        if part["idle"] is None:
            letter = inside[:1] if inside is not None else part[0][0]
            yield letter.replace("#", ""), part.start(), part.end() - part.start()


def _order(event: _Event) -> tuple[int, int, str]:
    return event.start_ns, -event.dur_ns, event.lane


def _steps(events: Sequence[_Event]) -> dict[int, list[_Event]]:
    steps: dict[int, list[_Event]] = {}
    for event in events:
        if event.lane == "step":
            steps.setdefault(event.rank, []).append(event)
    return steps


def _step_of(event: _Event, steps: dict[int, list[_Event]]) -> int | None:
    for step in steps.get(event.rank, ()):
        if step.start_ns <= event.start_ns < step.start_ns + step.dur_ns:
            return step.number
    return None


def _linked(events: Sequence[_Event]) -> list[_Event]:
    """The events of a rank, each launching call with its task: the first call of a letter with its first task."""
    calls: dict[str, list[int]] = {}
    tasks: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        if event.name and event.lane in ("call", *_STREAM):
            (calls if event.lane == "call" else tasks).setdefault(event.name, []).append(at)
    linked = list(events)
    pairs = [pair for name, own in calls.items() for pair in zip(own, tasks.get(name, ()), strict=False)]
    for correlation, (call, task) in enumerate(sorted(pairs), start=1):
        linked[call] = replace(events[call], correlation=correlation)
        linked[task] = replace(events[task], correlation=correlation, launch_ns=events[call].start_ns)
    return linked


def _rank_row(rank: int, world: int) -> dict[str, object]:
    return {
        "rank": rank,
        "capture": "drawn",
        "format": "drawn",
        "framework": "pytorch",
        "vendor": "ascend",
        "device_id": rank,
        "host": "host0",
        "world_size": world,
        "epoch_ns": 0,
    }


def _span(event: _Event) -> dict[str, object]:
    return {"rank": event.rank, "start_ns": event.start_ns, "dur_ns": event.dur_ns}


def _step_rows(events: Sequence[_Event]) -> Iterable[dict[str, object]]:
    for event in events:
        if event.lane == "step":
            yield _span(event) | {"step": event.number, "name": f"ProfilerStep#{event.number}"}


def _kernel_rows(events: Sequence[_Event]) -> Iterable[dict[str, object]]:
    for identity, event in enumerate(event for event in events if event.lane in _STREAM):
        copies = event.lane == "copy"
        yield _span(event) | {
            "kernel_id": identity,
            "name": event.name or event.lane,
            "type": event.name or event.lane,
            "component": event.lane,
            "unit": _UNIT[event.lane],
            "device_id": event.rank,
            "stream": event.number,
            "step": event.step,
            "correlation": event.correlation,
            "launch_ns": event.launch_ns,
            "direction": "h2d" if copies else None,
        }


def _comm_rows(events: Sequence[_Event]) -> Iterable[dict[str, object]]:
    before: dict[str, int] = {}
    for identity, event in enumerate(event for event in events if event.lane == "comm"):
        sequence = before.get(event.group, 0)
        before[event.group] = sequence + 1
        yield _span(event) | {
            "comm_id": identity,
            "name": event.name or "all_reduce",
            "op": "all_reduce",
            "library": "hccl",
            "group": event.group,
            "sequence": sequence,
            "stream": event.number,
            "step": event.step,
            "correlation": event.correlation,
            "launch_ns": event.launch_ns,
        }


def _group_rows(events: Sequence[_Event]) -> Iterable[dict[str, object]]:
    members: dict[str, set[int]] = {}
    for event in events:
        if event.lane == "comm":
            members.setdefault(event.group, set()).add(event.rank)
    for group, ranks in sorted(members.items()):
        for member, rank in enumerate(sorted(ranks)):
            for holder in sorted(ranks):
                yield {"rank": holder, "group": group, "name": group, "member": member, "global_rank": rank}


def _gc_rows(events: Sequence[_Event]) -> Iterable[dict[str, object]]:
    for event in events:
        if event.lane == "gc":
            yield _span(event) | {"tid": event.number}


def _host_rows(events: Sequence[_Event]) -> Iterable[dict[str, object]]:
    """Host calls with their depth and self time; those of one thread and layer must nest."""
    rows: list[dict[str, object]] = []
    open_calls: dict[tuple[int, bool], list[tuple[int, int]]] = {}  # lane -> (end, row) of the calls that are open
    self_ns: list[int] = []
    for event in (event for event in events if event.lane in _HOST):
        stack = open_calls.setdefault((event.number, event.lane in _CALLS), [])
        end = event.start_ns + event.dur_ns
        while stack and stack[-1][0] <= event.start_ns:
            stack.pop()
        if stack and stack[-1][0] < end:
            raise DrawingError(
                f"host calls of rank {event.rank} overlap on thread {event.number} at {event.start_ns} ns",
                hint="let one enclose the other, or draw it on another thread: `rank0.host@7`",
            )
        if stack:
            self_ns[stack[-1][1]] -= event.dur_ns
        rows.append(
            _span(event)
            | {
                "op_id": len(rows),
                "kind": "runtime" if event.lane in _CALLS else "op" if event.lane == "host" else "python",
                "name": _CALLS.get(event.lane) or event.name or event.lane,
                "correlation": event.correlation,
                "pid": 1,
                "tid": event.number,
                "depth": len(stack),
                "step": event.step,
            }
        )
        self_ns.append(event.dur_ns)
        stack.append((end, len(rows) - 1))
    return [row | {"self_ns": rest} for row, rest in zip(rows, self_ns, strict=True)]


_MAKERS: dict[str, Callable[[Sequence[_Event]], Iterable[dict[str, object]]]] = {
    "step": _step_rows,
    "host_op": _host_rows,
    "kernel": _kernel_rows,
    "comm_op": _comm_rows,
    "gc": _gc_rows,
}
