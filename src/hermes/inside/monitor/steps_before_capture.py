"""Computes what steps were like before a capture began, without its profiler: means over the last records of the ring.

A capture that Hermes starts by itself follows a change: only records since the change describe steps like the captured
ones.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Iterator

from hermes.inside.wire.long_steps import LongSteps, long_steps
from hermes.inside.wire.step_record import AT, FLAGS, NULL, SIZE, unpack

RECORDS = 256
"""Number of records that are read, once for each capture; this takes a millisecond."""
_OTHER = FLAGS["first"] | FLAGS["profiled"] | FLAGS["evaluation"] | FLAGS["foreign_profiler"]
_APART = FLAGS["first"] | FLAGS["profiled"] | FLAGS["foreign_profiler"]
"""Flags of steps that say nothing about the job's usual steps; evaluations are not among them, as they may come
evenly."""
_FEWEST, _SURE, _CHANGED = 5, 4.0, 0.2
_PAGES, _TRIES = 256, 5
_SAME = ("gc_ns", "data_ns", "data_cpu_ns", "save_ns", "optimizer_ns")
_MEANS = {"step_ns": "wall_ns", **{name: name for name in _SAME}}
"""Name of a mean, and the record's field that is averaged for it."""


def means_before_capture(records: bytes) -> dict[str, int]:
    """Means by name over packed records since their last change, as integers; a mean without any record is absent.

    `longest_ns` is the time on a core of the step with the most time on a core, also before the change. `steps` counts
    the records, `step_ns` is a step's mean length, `middle_ns` the median and `spread_ns` the median absolute deviation
    from the median. `gc_ns` is a step's time in garbage collections, `data_ns` its time in data loaders, `data_cpu_ns`
    its own computing time in data loaders. `save_ns` is a step's time in torch.save, `optimizer_ns` its time in
    optimizers' steps, `cpu_ns` its time on a core and `delay_ns` its wait for a core. `minor_faults` are the page
    faults without input of the middle step, and `fault_ns` is the cost of one page fault, measured now. Steps that
    another profiler, an evaluation or the start made different are left out; if no step is left, the result is empty.
    """
    rows = _without(records, _OTHER)
    if not rows:
        return {}
    longest_ns = max(map(_on_core_ns, rows))
    rows = rows[_changed_at(_walls(rows)) :]
    return {**_told(rows), "longest_ns": longest_ns, "fault_ns": fault_ns()}


def long_of(records: bytes) -> LongSteps | None:
    """The pattern of steps that are longer than others at an even distance, over packed records, evaluations
    included."""
    rows = _without(records, _APART)
    return long_steps([row[AT["step"]] for row in rows], _walls(rows))


def spans_of(records: bytes, found: LongSteps) -> list[tuple[int, int]]:
    """Begin and end of each long step of these records, in nanoseconds since 1970; captured steps are included."""
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


def _on_core_ns(row: tuple[int, ...]) -> int:
    """The most time in ns that a step can have been on a core."""
    wall_ns, cpu_ns = row[AT["wall_ns"]], row[AT["cpu_ns"]]
    return wall_ns if cpu_ns == NULL else min(wall_ns, cpu_ns)


def _walls(rows: list[tuple[int, ...]]) -> list[int]:
    return [row[AT["wall_ns"]] for row in rows]


def _told(rows: list[tuple[int, ...]]) -> dict[str, int]:
    return {"steps": len(rows), **dict(_means(rows))}


def _changed_at(walls: list[int]) -> int:
    """Index of the last change after which steps are longer or shorter than before; 0 without a change.

    The rank sum of Mann and Whitney at each cut, in standard deviations: stalls and steps that are long in turn, such
    as checkpoints, change the ranks of few steps. The medians of both sides must also differ by a fifth.
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
    # These fields are read at most every 10 ms, for all steps since the last reading.
    for name in ("cpu_ns", "delay_ns"):
        known = [row[AT[name]] for row in rows if row[AT[name]] != NULL]
        if known:
            yield name, sum(known) // len(rows)
    # These fields are read only four times a second, for all steps since: the first reading may cover steps before
    # these records.
    faults = [(at, row[AT["minor_faults"]]) for at, row in enumerate(rows) if row[AT["minor_faults"]] != NULL]
    rates = sorted(count // (at - last) for (last, _), (at, count) in zip(faults, faults[1:]))
    if rates:
        # Not a mean: rare work, such as a capture that makes room, touches more pages at once than hundreds of steps.
        yield "minor_faults", rates[(len(rates) - 1) // 2]


def fault_ns() -> int:
    """Cost in ns of touching a page first and giving it back on this machine: the least of five tries, some ms in
    all."""
    return min(_page_ns() for _ in range(_TRIES))


def _page_ns() -> int:
    # Private memory, as malloc asks for: a page that processes could share costs half as much again.
    with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        written = bytes(len(memory))
        # The second write to a page measures the writing alone.
        touched = _touched_ns(memory, written) - _touched_ns(memory, written)
        start = time.perf_counter_ns()
        memory.close()
        # A page that each step touches anew was given back in the step before.
        return max(touched, 0) + (time.perf_counter_ns() - start) // _PAGES


def _touched_ns(memory: mmap.mmap, written: bytes) -> int:
    """Time in ns to write to one page of `memory`, measured over many pages at once, as operators write."""
    start = time.perf_counter_ns()
    memory[:] = written
    return (time.perf_counter_ns() - start) // _PAGES
