"""Names what makes steps slow from the counters of the monitor alone, without a profile.

Two questions: what grew when steps became slower (`why_slower`), and what costs a share of all steps (`what_costs`).
The counters split a step of the host: waiting for data, saving, collecting garbage, waiting for a CPU, computing, and
being blocked on something else, which may be a device or other ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hermes.base.message import Message, Word
from hermes.jobs.detect.messages import note_periodic, note_straggler
from hermes.jobs.detect.periodic import periodic
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
_SAMPLED = frozenset({"process_cpu_ns", "voluntary"})
PERIODIC = Limit(value=0.05, unit="of all time", source="docs/evidence/detection.md")


class Spent(Word):
    """What the time of a step goes to, as far as the counters tell."""

    DATA_WAIT = "data wait"
    DATA_WORK = "data work"
    GARBAGE_COLLECTION = "garbage collection"
    CPU_CONTENTION = "CPU contention"
    INTERPRETER_LOCK = "interpreter lock"
    CHECKPOINT = "checkpoint"
    COPIES = "copies to the device"
    HOST_COMPUTE = "host compute"
    BLOCKED = "blocked"
    STRAGGLER = "straggler"
    PERIODIC = "periodic"

    @property
    def about(self) -> Leaf | Risk:
        """The leaf that it is. The counters do not tell what a blocked host waits for."""
        return _ABOUT[self]

    @property
    def remedy(self) -> Message:
        """What to do about it."""
        return Remedy(self.value).message


class Remedy(Word):
    """What to do about each of `Spent`."""

    DATA_WAIT = Spent.DATA_WAIT.value
    DATA_WORK = Spent.DATA_WORK.value
    GARBAGE_COLLECTION = Spent.GARBAGE_COLLECTION.value
    CPU_CONTENTION = Spent.CPU_CONTENTION.value
    INTERPRETER_LOCK = Spent.INTERPRETER_LOCK.value
    CHECKPOINT = Spent.CHECKPOINT.value
    COPIES = Spent.COPIES.value
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
    Spent.HOST_COMPUTE: Leaf.PYTHON,
    Spent.BLOCKED: Leaf.NOT_RECORDED,
    Spent.STRAGGLER: Leaf.WAIT,
    Spent.PERIODIC: Risk.SLOWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What slows the steps of a rank: nanoseconds a step, and the share that this is of the growth, or of all time."""

    name: Spent
    rank: int
    cost_ns: int
    share: float
    note: Message | None = None


def split(steps: Steps) -> dict[Spent, float] | None:
    """Mean nanoseconds of a step by what the host spent it on; None for no steps. What was not measured is absent."""
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
        # Collections and the thread's own work for a batch are on a CPU; saving is partly, and counts by itself.
        blocked = max(wall - cpu - delay - parts.get(Spent.DATA_WAIT, 0.0), 0.0)
        parts[Spent.BLOCKED] = max(blocked - parts.get(Spent.CHECKPOINT, 0.0), 0.0)
        known = parts.get(Spent.GARBAGE_COLLECTION, 0.0) + parts.get(Spent.DATA_WORK, 0.0)
        parts[Spent.HOST_COMPUTE] = max(cpu - known, 0.0)
    moved = _mean(steps, "transfer_ns")
    if moved is not None:
        _set_apart(parts, Spent.COPIES, moved)
    if cpu is not None and Spent.BLOCKED in parts:
        parts[Spent.INTERPRETER_LOCK] = _locked_out(steps, parts[Spent.BLOCKED], cpu)
        parts[Spent.BLOCKED] -= parts[Spent.INTERPRETER_LOCK]
    return parts


def _set_apart(parts: dict[Spent, float], name: Spent, cost: float) -> None:
    """A part of its own for what stands in `blocked` so far, or in `host compute`: drivers wait or spin."""
    parts[name] = cost
    for other in (Spent.BLOCKED, Spent.HOST_COMPUTE):
        taken = min(parts.get(other, 0.0), cost)
        if other in parts:
            parts[other] -= taken
        cost -= taken


def _locked_out(steps: Steps, blocked: float, cpu: float) -> float:
    """How long the stepping thread stood still in a step while other threads of its process computed, at most one.

    Autograd's threads and those of collectives compute while the stepping thread waits for them: passes backward and
    collectives do not count, and where there are several ranks and nobody timed their collectives nothing does. Who is
    kept from the lock asks for it anew every 5 ms, so longer waits are for something else. Threads of an operator
    compute beside it, when it does not stand still.
    """
    whole, backward, waits = (_mean(steps, name) for name in ("process_cpu_ns", "backward_ns", "voluntary"))
    comm = _mean(steps, "comm_ns")
    # Without passes backward a graph is run by threads of the framework, which hold no lock of Python.
    if whole is None or backward is None or (comm is None and _several(steps)):
        return 0.0
    if waits is not None and blocked > waits * _LONGEST_LOCK_NS:
        return 0.0
    return max(min(blocked - backward - (comm or 0.0), whole - cpu), 0.0)


def _several(steps: Steps) -> bool:
    world = steps.about.get("world")
    return isinstance(world, int) and world > 1


def _mean(steps: Steps, name: str) -> float | None:
    """Mean a step of what was measured; None where it was not, or of the whole process only once."""
    column = steps.of(name)
    read = np.flatnonzero(~np.isnan(column))
    if not len(read):
        return None
    # A counter read now and then holds the time since it was read last: the first value is of steps before these too.
    if len(read) < len(column) and len(read) > 2:
        return float(column[read[1:]].sum()) / int(read[-1] - read[0])
    if name in _SAMPLED and len(read) < len(column):
        return None
    return float(np.nansum(column)) / len(column)


def why_slower(before: Steps, after: Steps) -> Cause | None:
    """What makes up the most of the growth from `before` to `after`; None below half of it, or without growth."""
    first, then = split(before), split(after)
    if first is None or then is None:
        return None
    growth = float(after.of("wall_ns").mean() - before.of("wall_ns").mean())
    if growth <= 0:
        return None
    grown = {name: then[name] - first[name] for name in then.keys() & first.keys()}
    if not grown:
        return None
    name = max(sorted(grown), key=lambda one: grown[one])
    if grown[name] < GREW.value * growth:
        return None
    return Cause(name=name, rank=after.rank, cost_ns=int(grown[name]), share=min(grown[name] / growth, 1.0))


def what_costs(ranks: Sequence[Steps]) -> tuple[Cause, ...]:
    """The causes that cost a share above their limit over the whole log, by rank and then by cost."""
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
