"""What steps were like before a capture began, without its profiler: means over the last records of the ring.

A capture that begins by itself follows a change: only the records since it are steps like those that are captured.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Iterator

from hermes.inside.wire.long_steps import LongSteps, long_steps
from hermes.inside.wire.record import AT, FLAGS, NULL, SIZE, unpack

RECORDS = 256
"""So many records are looked at, a millisecond's work, once for each capture."""
_OTHER = FLAGS["first"] | FLAGS["profiled"] | FLAGS["evaluation"] | FLAGS["foreign_profiler"]
_APART = FLAGS["first"] | FLAGS["profiled"] | FLAGS["foreign_profiler"]
"""What is no step of the job's own; an evaluation is one that may come evenly."""
_FEWEST, _SURE, _CHANGED = 5, 4.0, 0.2
_PAGES, _TRIES = 256, 5
_SAME = ("gc_ns", "data_ns", "data_cpu_ns", "save_ns", "optimizer_ns")
_MEANS = {"step_ns": "wall_ns", **{name: name for name in _SAME}}
"""Mean and the field of a record that it is of."""


def before(records: bytes) -> dict[str, int]:
    """Means by name over packed records since their last change, as integers; what no record has is absent.

    `steps` counts the records, `step_ns` is a step's length, `middle_ns` its median and `spread_ns` the median absolute
    deviation from that,
    `gc_ns` its time in collections, `data_ns` its time in data loaders, `data_cpu_ns` what it computed
    there itself, `save_ns` its time in torch.save, `optimizer_ns` its time in optimizers' steps, `cpu_ns` its time on a
    core and `delay_ns` that in which it waited for one, `minor_faults` the
    page faults without input of the middle step, `fault_ns` what one costs, measured now. Steps that another profiler,
    an evaluation or the start made different are left out; none is left: nothing is told.
    """
    rows = _without(records, _OTHER)
    if not rows:
        return {}
    rows = rows[_changed_at(_walls(rows)) :]
    return {**_told(rows), "fault_ns": fault_ns()}


def long_of(records: bytes) -> LongSteps | None:
    """The steps that are longer than others at an even distance, over packed records, evaluations among them."""
    rows = _without(records, _APART)
    return long_steps([row[AT["step"]] for row in rows], _walls(rows))


def spans_of(records: bytes, found: LongSteps) -> list[tuple[int, int]]:
    """When the long steps of these records began and ended, in nanoseconds since 1970; captured ones, too."""
    return [
        (row[AT["end_ns"]] - row[AT["wall_ns"]], row[AT["end_ns"]])
        for row in _without(records, FLAGS["first"])
        if found.holds(row[AT["step"]])
    ]


def _without(records: bytes, flags: int) -> list[tuple[int, ...]]:
    """The records of steps that have none of these flags."""
    return [
        row
        for at in range(0, len(records) - SIZE + 1, SIZE)
        if (row := unpack(records[at : at + SIZE])) and not row[AT["flags"]] & flags
    ]


def _walls(rows: list[tuple[int, ...]]) -> list[int]:
    return [row[AT["wall_ns"]] for row in rows]


def _told(rows: list[tuple[int, ...]]) -> dict[str, int]:
    return {"steps": len(rows), **dict(_means(rows))}


def _changed_at(walls: list[int]) -> int:
    """Where the last stretch of steps begins that are longer or shorter than those before it; 0 where none does.

    The rank sum of Mann and Whitney at each cut, in standard deviations: stalls and steps that are long by turns, as
    checkpoints are, change no ranks of many. The medians of both sides must differ by a fifth, too.
    """
    begin = 0
    while cut := _cut(walls[begin:]):
        begin += cut
    return begin


def _cut(walls: list[int]) -> int:
    count, above, best, at = len(walls), 0.0, _SURE, 0
    order = {place: rank for rank, place in enumerate(sorted(range(count), key=walls.__getitem__))}
    for cut in range(1, count - _FEWEST + 1):
        above += 2 * order[cut - 1] - (count - 1)
        score = abs(above) / math.sqrt(cut * (count - cut) * (count + 1) / 3)
        if cut >= _FEWEST and score > best:
            best, at = score, cut
    before, since = _middle(walls[:at] or walls), _middle(walls[at:])
    return at if abs(since - before) > _CHANGED * before else 0


def _middle(values: list[int]) -> int:
    return sorted(values)[len(values) // 2]


def _means(rows: list[tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    for name, field in _MEANS.items():
        known = [row[AT[field]] for row in rows if row[AT[field]] != NULL]
        if known:
            yield name, sum(known) // len(known)
    walls = _walls(rows)
    middle = _middle(walls)
    yield "middle_ns", middle
    yield "spread_ns", _middle([abs(wall - middle) for wall in walls])
    # Read each 10 ms at most, for all steps since.
    for name in ("cpu_ns", "delay_ns"):
        known = [row[AT[name]] for row in rows if row[AT[name]] != NULL]
        if known:
            yield name, sum(known) // len(rows)
    # Read four times a second only, for all steps since: the first may count what was before these records.
    faults = [(at, row[AT["minor_faults"]]) for at, row in enumerate(rows) if row[AT["minor_faults"]] != NULL]
    rates = sorted(count // (at - last) for (last, _), (at, count) in zip(faults, faults[1:]))
    if rates:
        # No mean: what starts now and then, as a capture that makes room, touches more at once than hundreds of steps.
        yield "minor_faults", rates[(len(rates) - 1) // 2]


def fault_ns() -> int:
    """What it costs here to touch a page first and to give it back: the least of five tries, some ms in all."""
    return min(_page_ns() for _ in range(_TRIES))


def _page_ns() -> int:
    # Private, as what malloc asks for is: a page that processes could share costs half as much again.
    with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        written = bytes(len(memory))
        # The second time it is what writing takes.
        touched = _touched_ns(memory, written) - _touched_ns(memory, written)
        start = time.perf_counter_ns()
        memory.close()
        # What is touched anew in each step was given back in the one before.
        return max(touched, 0) + (time.perf_counter_ns() - start) // _PAGES


def _touched_ns(memory: mmap.mmap, written: bytes) -> int:
    """What writing to one of its pages costs, many at once as operators do."""
    start = time.perf_counter_ns()
    memory[:] = written
    return (time.perf_counter_ns() - start) // _PAGES
