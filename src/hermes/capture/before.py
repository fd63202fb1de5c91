"""What steps were like before a capture began, without its profiler: means over the last records of the ring."""

from __future__ import annotations

import itertools
import mmap
import time
from collections.abc import Iterator

from hermes.live.record import AT, FLAGS, NULL, SIZE, unpack

RECORDS = 256
"""So many records are looked at, a millisecond's work, once for each capture."""
_OTHER = FLAGS["first"] | FLAGS["profiled"] | FLAGS["evaluation"] | FLAGS["foreign_profiler"]
_PAGES, _TRIES = 32, 3
_MEANS = {"step_ns": "wall_ns"} | {
    name: name for name in ("gc_ns", "data_ns", "data_cpu_ns", "save_ns", "optimizer_ns")
}
"""Mean and the field of a record that it is of."""


def before(records: bytes) -> dict[str, int]:
    """Means by name over packed records, as integers; what no record has is absent.

    `steps` counts the records, `step_ns` is a step's length and `spread_ns` the median absolute deviation of it,
    `gc_ns` its time in collections, `data_ns` its time in data loaders, `data_cpu_ns` what it computed
    there itself, `save_ns` its time in torch.save, `optimizer_ns` its time in optimizers' steps, `minor_faults` the
    page faults without input of the middle step, `fault_ns` what one costs, measured now. Steps that another profiler,
    an evaluation or the start made different are left out; none is left: nothing is told.
    """
    rows = [
        row
        for at in range(0, len(records) - SIZE + 1, SIZE)
        if (row := unpack(records[at : at + SIZE])) and not row[AT["flags"]] & _OTHER
    ]
    if not rows:
        return {}
    return {"steps": len(rows), **dict(_means(rows)), "fault_ns": fault_ns()}


def _means(rows: list[tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    for name, field in _MEANS.items():
        known = [row[AT[field]] for row in rows if row[AT[field]] != NULL]
        if known:
            yield name, sum(known) // len(known)
    walls = sorted(row[AT["wall_ns"]] for row in rows)
    middle = walls[len(walls) // 2]
    yield "spread_ns", sorted(abs(wall - middle) for wall in walls)[len(walls) // 2]
    # Read four times a second only, for all steps since: the first may count what was before these records.
    faults = [(at, row[AT["minor_faults"]]) for at, row in enumerate(rows) if row[AT["minor_faults"]] != NULL]
    rates = sorted(count // (at - last) for (last, _), (at, count) in itertools.pairwise(faults))
    if rates:
        # No mean: what starts now and then, as a capture that makes room, touches more at once than hundreds of steps.
        yield "minor_faults", rates[(len(rates) - 1) // 2]


def fault_ns() -> int:
    """What the first touch of a page costs here: the least of three tries, 100 us in all, more in a virtual machine."""
    best = 0
    for _ in range(_TRIES):
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE) as memory:
            first = _touched_ns(memory)
            # The second time it is Python's own part of it.
            spent = first - _touched_ns(memory)
        best = min(best, spent) if best else spent
    return max(best, 0)


def _touched_ns(memory: mmap.mmap) -> int:
    """What writing to one of its pages costs."""
    start = time.perf_counter_ns()
    for at in range(0, _PAGES * mmap.PAGESIZE, mmap.PAGESIZE):
        memory[at] = 1
    return (time.perf_counter_ns() - start) // _PAGES
