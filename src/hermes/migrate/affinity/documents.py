"""Makes documents (`hermes.affinity/1`) of a plan of cores, and of the result of applying the plan."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.errors import Diagnostic
from hermes.migrate.affinity import messages as say
from hermes.migrate.affinity.bind_threads import BoundProcess
from hermes.migrate.affinity.machine_topology import ranges
from hermes.migrate.affinity.plan import Plan, RankCores
from hermes.model.document import CodeText, Column, Document, Part, Table

SCHEMA = "hermes.affinity/1"


def plan_document(plan: Plan) -> Document:
    """The plan as a document, with the command lines that apply it."""
    cores = frozenset().union(*(seat.cpus for seat in plan.seats))
    return Document(
        schema=SCHEMA, inputs=(),
        answer=say.planned(devices=say.devices(n=len(plan.seats)), cores=say.cores(n=len(cores))),
        coverage=tuple(Diagnostic(level="info", message=note) for note in plan.notes),
        facts={
            "kind": "plan", "cpu_affinity_conf": plan.variable or None,
            "ranks": [
                {"device": seat.name, "cpus": sorted(seat.cpus), "node": seat.device.node,
                 "pids": list(seat.device.pids), "taskset": seat.taskset, "numactl": seat.numactl}
                for seat in plan.seats
            ],
        },
        parts=(_ranks(plan.seats), *_commands(plan)),
    )  # fmt: skip


def _ranks(seats: Sequence[RankCores]) -> Table:
    columns = (
        Column(key="device", title=say.COLUMN_DEVICE, kind="name"),
        Column(key="cores", title=say.COLUMN_CORES, kind="name"),
        Column(key="node", title=say.COLUMN_NODE, kind="count"),
        Column(key="processes", title=say.COLUMN_PROCESSES, kind="name"),
        Column(key="why", title=say.COLUMN_WHY, kind="word"),
    )
    rows = [
        (seat.name, ranges(seat.cpus), seat.device.node, ", ".join(map(str, seat.device.pids)) or None, seat.why)
        for seat in seats
    ]  # fmt: skip
    return Table(key="ranks", title=say.TITLE_RANKS, columns=columns, rows=rows)


def _commands(plan: Plan) -> tuple[Part, ...]:
    lines = "".join(f"{seat.numactl} python …   # rank {seat.device.index}\n" for seat in plan.seats)
    variable = (
        (CodeText(key="variable", title=say.TITLE_VARIABLE, text=f"export {plan.variable}\n"),) if plan.variable else ()
    )
    running = CodeText(key="running", title=say.TITLE_RUNNING, text="hermes affinity --apply\n")
    return CodeText(key="commands", title=say.TITLE_COMMANDS, text=lines), *variable, running


def bound_document(done: Sequence[BoundProcess]) -> Document:
    """The threads that were moved, and those that were not, as a document."""
    failed = sum(bool(one.failed) for one in done)
    count = say.processes(n=len(done))
    columns = (
        Column(key="process", title=say.COLUMN_PROCESS, kind="name"),
        Column(key="threads", title=say.COLUMN_THREADS, kind="count"),
        Column(key="cores", title=say.COLUMN_CORES, kind="name"),
    )
    moved = say.moved(processes=count)
    answer = say.partly_moved(failed=say.processes(n=failed), processes=count) if failed else moved
    rows = [(str(one.pid), one.threads, ranges(one.cpus)) for one in done]
    return Document(
        schema=SCHEMA, inputs=(),
        answer=answer,
        coverage=tuple(
            Diagnostic(level="degraded", message=reason, where=str(one.pid)) for one in done for reason in one.failed
        ),
        facts={"kind": "moved", "complete": not failed},
        parts=(Table(key="processes", title=say.TITLE_PROCESSES, columns=columns, rows=rows),),
    )  # fmt: skip
