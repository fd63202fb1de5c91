"""A plan of cores, and what became of it, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hermes.migrate.affinity.bind import Bound
from hermes.migrate.affinity.machine import ranges
from hermes.migrate.affinity.plan import Plan


def text(plan: Plan) -> Iterator[str]:
    """The plan, and the lines that put it into effect."""
    for seat in plan.seats:
        name = f"{seat.device.kind}{seat.device.index}"
        node = f", NUMA node {seat.device.node}" if seat.device.node is not None else ""
        pids = f", processes {', '.join(map(str, seat.device.pids))}" if seat.device.pids else ""
        yield f"{name:<6} cores {ranges(seat.cpus)}  ({seat.why}{node}{pids})"
    for note in plan.notes:
        yield f"note: {note}"
    yield ""
    yield "start a rank on its cores, one of:"
    for seat in plan.seats:
        yield f"  rank {seat.device.index}:  {seat.numactl} python …"
    if plan.variable:
        yield f"or for all ranks, by torch_npu itself:\n  export {plan.variable}"
    yield "or for ranks that run already:\n  hermes affinity --apply      (hermes affinity --restore takes it back)"


def document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON."""
    return {
        "format": "hermes.affinity/1",
        "ranks": [
            {
                "device": f"{seat.device.kind}{seat.device.index}", "cpus": sorted(seat.cpus), "node": seat.device.node,
                "pids": list(seat.device.pids), "taskset": seat.taskset, "numactl": seat.numactl, "why": seat.why,
            }
            for seat in plan.seats
        ],
        "cpu_affinity_conf": plan.variable or None,
        "notes": list(plan.notes),
    }  # fmt: skip


def bound(done: Sequence[Bound]) -> Iterator[str]:
    """What was moved, and what was not."""
    for one in done:
        yield f"process {one.pid}: {one.threads} threads on cores {ranges(one.cpus)}"
        for reason in one.failed:
            yield f"  not moved: {reason}"
