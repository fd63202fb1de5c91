"""Names the cause of slow steps from the monitor's counters alone, without a profile.

`why_slower` says what grew when steps became slower; `what_costs` says what costs a share of all steps. The counters
split the host's step: waiting for data, saving, collecting garbage, waiting for a core, computing, and blocked on
something else. Something else may be a device or other ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hermes.base.message import Message, Word
from hermes.jobs.detect.messages import note_periodic, note_straggler
from hermes.jobs.detect.periodic_slow_steps import periodic
from hermes.jobs.detect.read_step_logs import Steps
from hermes.jobs.detect.straggler import lasting_straggler
from hermes.model.leaf import Leaf, Risk
from hermes.model.limit import Limit

GREW = Limit(value=0.5, unit="of the growth", source="docs/evidence/detection.md")
DATA = Limit(value=0.25, unit="of all time", source="docs/evidence/detection.md")
GC = Limit(value=0.10, unit="of all time", source="docs/evidence/detection.md")
CPU_QUEUE = Limit(value=0.20, unit="of all time", source="docs/evidence/detection.md")
LOCK = Limit(value=0.25, unit="of all time", source="docs/evidence/detection.md")
_LONGEST_LOCK_NS = 15e6
_SAMPLED = frozenset({"process_cpu_ns", "voluntary", "minor_faults"})
_FAULT_NS = 500
"""Least cost in ns of a page fault: the kernel is entered and a page is cleared."""
PERIODIC = Limit(value=0.05, unit="of all time", source="docs/evidence/detection.md")


class Spent(Word):
    """The parts of a step's time that the counters tell apart."""

    DATA_WAIT = "data wait"
    DATA_WORK = "data work"
    GARBAGE_COLLECTION = "garbage collection"
    CPU_CONTENTION = "CPU contention"
    INTERPRETER_LOCK = "interpreter lock"
    CHECKPOINT = "checkpoint"
    COPIES = "copies to the device"
    COLLECTIVES = "collectives"
    PAGE_FAULTS = "page faults"
    HOST_COMPUTE = "host compute"
    BLOCKED = "blocked"
    STRAGGLER = "straggler"
    PERIODIC = "periodic"

    @property
    def about(self) -> Leaf | Risk:
        """The leaf of the tree for this part of the step. The counters do not tell what a blocked host waits for."""
        return _ABOUT[self]

    @property
    def remedy(self) -> Message:
        """The advice for this part of the step."""
        return Remedy(self.value).message


class Remedy(Word):
    """The advice for each part of a step in `Spent`."""

    DATA_WAIT = Spent.DATA_WAIT.value
    DATA_WORK = Spent.DATA_WORK.value
    GARBAGE_COLLECTION = Spent.GARBAGE_COLLECTION.value
    CPU_CONTENTION = Spent.CPU_CONTENTION.value
    INTERPRETER_LOCK = Spent.INTERPRETER_LOCK.value
    CHECKPOINT = Spent.CHECKPOINT.value
    COPIES = Spent.COPIES.value
    COLLECTIVES = Spent.COLLECTIVES.value
    PAGE_FAULTS = Spent.PAGE_FAULTS.value
    HOST_COMPUTE = Spent.HOST_COMPUTE.value
    BLOCKED = Spent.BLOCKED.value
    STRAGGLER = Spent.STRAGGLER.value
    PERIODIC = Spent.PERIODIC.value


_ABOUT: Mapping[Spent, Leaf | Risk] = {
    Spent.DATA_WAIT: Leaf.INPUT_WORKERS,
    Spent.DATA_WORK: Leaf.INPUT_HERE,
    Spent.GARBAGE_COLLECTION: Leaf.GARBAGE_COLLECTION,
    Spent.CPU_CONTENTION: Leaf.OTHER_WORK_ON_CORES,
    Spent.INTERPRETER_LOCK: Leaf.INTERPRETER_LOCK,
    Spent.CHECKPOINT: Leaf.FILE_OR_NETWORK,
    Spent.COPIES: Leaf.BLOCKING_COPY,
    Spent.COLLECTIVES: Leaf.COMMUNICATION,
    Spent.PAGE_FAULTS: Leaf.ALLOCATOR,
    Spent.HOST_COMPUTE: Leaf.PYTHON,
    Spent.BLOCKED: Leaf.NOT_RECORDED,
    Spent.STRAGGLER: Leaf.WAIT,
    Spent.PERIODIC: Risk.SLOWER,
}


_ON_A_CORE = (Spent.HOST_COMPUTE, Spent.PAGE_FAULTS, Spent.GARBAGE_COLLECTION, Spent.DATA_WORK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of slow steps of a rank: cost in ns a step, and the cost's share of the growth, or of all time."""

    name: Spent
    rank: int
    cost_ns: int
    share: float
    note: Message | None = None
    late: bool = False
    """Whether the other ranks wait for this rank."""


def split(steps: Steps) -> dict[Spent, float] | None:
    """Mean ns of a step by what the host spent them on; None for no steps. A part that was not measured is absent."""
    if not len(steps):
        return None
    mean = {name: _mean(steps, name) for name in ("wall_ns", "data_ns", "save_ns", "gc_ns", "delay_ns")}
    parts: dict[Spent, float] = {}
    wall, data, delay = mean["wall_ns"], mean["data_ns"], mean["delay_ns"]
    if data is not None:
        own = steps.loader_work() / len(steps)
        parts[Spent.DATA_WAIT], parts[Spent.DATA_WORK] = data - own, own
    for name, column in (
        (Spent.CHECKPOINT, "save_ns"),
        (Spent.GARBAGE_COLLECTION, "gc_ns"),
        (Spent.CPU_CONTENTION, "delay_ns"),
    ):
        if (value := mean[column]) is not None:
            parts[name] = value
    cpu = _mean(steps, "cpu_ns")
    if cpu is not None and wall is not None and delay is not None:
        # Garbage collections and the thread's own work for a batch use a CPU; saving uses one partly, and is a part by
        # itself.
        blocked = max(wall - cpu - delay - parts.get(Spent.DATA_WAIT, 0.0), 0.0)
        parts[Spent.BLOCKED] = max(blocked - parts.get(Spent.CHECKPOINT, 0.0), 0.0)
        known = parts.get(Spent.GARBAGE_COLLECTION, 0.0) + parts.get(Spent.DATA_WORK, 0.0)
        parts[Spent.HOST_COMPUTE] = max(cpu - known, 0.0)
    moved = _mean(steps, "transfer_ns")
    if moved is not None:
        _set_apart(parts, Spent.COPIES, moved, (Spent.BLOCKED, Spent.HOST_COMPUTE))
    if (waited := _mean(steps, "comm_ns")) is not None and not steps.about.get("device"):
        _set_apart(parts, Spent.COLLECTIVES, waited, (Spent.BLOCKED, Spent.HOST_COMPUTE))
    if (faults := _mean(steps, "minor_faults")) is not None and Spent.HOST_COMPUTE in parts:
        _set_apart(parts, Spent.PAGE_FAULTS, min(faults * _FAULT_NS, parts[Spent.HOST_COMPUTE]), (Spent.HOST_COMPUTE,))
    if cpu is not None and Spent.BLOCKED in parts:
        parts[Spent.INTERPRETER_LOCK] = _locked_out(steps, parts[Spent.BLOCKED], cpu)
        parts[Spent.BLOCKED] -= parts[Spent.INTERPRETER_LOCK]
    return parts


def _set_apart(parts: dict[Spent, float], name: Spent, cost: float, stands: Sequence[Spent]) -> None:
    """Move `cost` out of the parts in `stands` into a part `name`: drivers wait in `blocked`, or spin in `host
    compute`."""
    parts[name] = cost
    for other in stands:
        taken = min(parts.get(other, 0.0), cost)
        if other in parts:
            parts[other] -= taken
        cost -= taken


def _locked_out(steps: Steps, blocked: float, cpu: float) -> float:
    """The most ns that the stepping thread stood still in a step while other threads of its process computed.

    Threads of autograd and of collectives compute while the stepping thread waits for them. So backward passes and
    collectives do not count. With several ranks whose collectives were not timed, nothing counts. A thread that waits
    for the interpreter lock asks for it anew every 5 ms, so longer waits have another reason. Threads of an operator
    compute beside the stepping thread, which then does not stand still.
    """
    whole, backward, waits = (_mean(steps, name) for name in ("process_cpu_ns", "backward_ns", "voluntary"))
    comm = _mean(steps, "comm_ns")
    # Without backward passes, threads of the framework run a graph, and these threads hold no lock of Python.
    if whole is None or backward is None or (comm is None and _several(steps)):
        return 0.0
    if waits is not None and blocked > waits * _LONGEST_LOCK_NS:
        return 0.0
    return max(min(blocked - backward - (comm or 0.0), whole - cpu), 0.0)


def _several(steps: Steps) -> bool:
    world = steps.about.get("world")
    return isinstance(world, int) and world > 1


def _mean(steps: Steps, name: str) -> float | None:
    """Mean of a measured value per step; None if it was not measured, or only once for the whole process."""
    column = steps.of(name)
    read = np.flatnonzero(~np.isnan(column))
    if not len(read):
        return None
    # A counter read now and then holds the time since its last reading: the first value includes earlier steps.
    if len(read) < len(column) and len(read) > (1 if name in _SAMPLED else 2):
        return float(column[read[1:]].sum()) / int(read[-1] - read[0])
    if name in _SAMPLED and len(read) < len(column):
        return None
    return float(np.nansum(column)) / len(column)


def grown_parts(first: Mapping[Spent, float], then: Mapping[Spent, float]) -> dict[Spent, float]:
    """By how many ns each part of a step grew.

    A thread that computes more also waits more for a core, if other threads want the cores too. So the proportional
    wait belongs to the part that computes more; the remaining wait is contention.
    """
    grown = {name: then[name] - first[name] for name in then.keys() & first.keys()}
    busy = {name: grown[name] for name in _ON_A_CORE if grown.get(name, 0.0) > 0}
    before = sum(first.get(name, 0.0) for name in _ON_A_CORE)
    if Spent.CPU_CONTENTION in grown and busy and before > 0:
        share = min(first[Spent.CPU_CONTENTION] / before * sum(busy.values()), max(grown[Spent.CPU_CONTENTION], 0.0))
        grown[Spent.CPU_CONTENTION] -= share
        for name, more in busy.items():
            grown[name] += share * more / sum(busy.values())
    return grown


def why_slower(before: Steps, after: Steps) -> Cause | None:
    """The part with most of the growth from `before` to `after`; None if it has less than half, or without growth."""
    first, then = split(before), split(after)
    if first is None or then is None:
        return None
    growth = float(after.of("wall_ns").mean() - before.of("wall_ns").mean())
    if growth <= 0:
        return None
    grown = grown_parts(first, then)
    if not grown:
        return None
    name = max(sorted(grown), key=lambda one: grown[one])
    if grown[name] < GREW.value * growth:
        return None
    return Cause(name=name, rank=after.rank, cost_ns=int(grown[name]), share=min(grown[name] / growth, 1.0))


def what_costs(ranks: Sequence[Steps]) -> tuple[Cause, ...]:
    """The causes that cost more than their limit over the whole log, by rank and then by cost."""
    limits = {
        Spent.DATA_WAIT: DATA,
        Spent.DATA_WORK: DATA,
        Spent.GARBAGE_COLLECTION: GC,
        Spent.CPU_CONTENTION: CPU_QUEUE,
        Spent.INTERPRETER_LOCK: LOCK,
    }
    found: list[Cause] = []
    for steps in ranks:
        usable = steps.part(min(1, len(steps)), len(steps))
        parts = split(usable)
        if parts is None:
            continue
        wall = float(usable.of("wall_ns").mean())
        costs = [
            Cause(name=name, rank=steps.rank, cost_ns=int(parts[name]), share=parts[name] / wall)
            for name, limit in limits.items()
            if name in parts and parts[name] > limit.value * wall
        ]
        slow = periodic(steps)
        if slow is not None and slow.share > PERIODIC.value:
            note = note_periodic(n=slow.period, extra=slow.extra_ns)
            cost = int(slow.share * wall)
            costs.append(Cause(name=Spent.PERIODIC, rank=steps.rank, cost_ns=cost, share=slow.share, note=note))
        found += sorted(costs, key=lambda cause: -cause.cost_ns)
    late, since = lasting_straggler(ranks)
    if late is not None:
        said = note_straggler(work=late.own_ns, others=late.others_ns, since=since or None)
        share = late.waited_ns / max(late.waited_ns + late.others_ns, 1)
        found.insert(0, Cause(name=Spent.STRAGGLER, rank=late.rank, cost_ns=late.waited_ns, share=share, note=said))
    return tuple(found)
