"""Names what makes steps slow from the counters of the monitor alone, without a profile.

Two questions: what grew when steps became slower (`why_slower`), and what costs a share of all steps (`what_costs`).
The counters split a step of the host: waiting for data, saving, collecting garbage, waiting for a CPU, computing, and
being blocked on something else, which may be a device or other ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hermes.jobs.detect.periodic import periodic
from hermes.jobs.detect.read_step_logs import Steps
from hermes.jobs.detect.straggler import lasting_straggler
from hermes.model.limit import Limit

GREW = Limit(value=0.5, unit="of the growth", source="docs/evidence/detection.md")
DATA = Limit(value=0.25, unit="of all time", source="docs/evidence/detection.md")
GC = Limit(value=0.10, unit="of all time", source="docs/evidence/detection.md")
CPU_QUEUE = Limit(value=0.20, unit="of all time", source="docs/evidence/detection.md")
LOCK = Limit(value=0.25, unit="of all time", source="docs/evidence/detection.md")
_LONGEST_LOCK_NS = 15e6
_SAMPLED = frozenset({"process_cpu_ns", "voluntary"})
PERIODIC = Limit(value=0.05, unit="of all time", source="docs/evidence/detection.md")

WORDS: Mapping[str, tuple[str, str]] = {
    "data wait": ("the input pipeline", "more or persistent workers, prefetching, data on a local disk"),
    "data work": ("batches made by the training process itself", "give the DataLoader workers, or precompute"),
    "garbage collection": ("Python's garbage collector", "gc.freeze() after start-up, fewer explicit gc.collect()"),
    "CPU contention": (
        "waiting for a CPU",
        "hold the job's own ranks x threads and DataLoader workers against the cores: fewer workers or OMP_NUM_THREADS "
        "where they are more, else move what else runs here",
    ),
    "interpreter lock": (
        "another thread of the process that holds the interpreter",
        "move its work to a process, or let it sleep; py-spy dump shows it",
    ),
    "checkpoint": ("saving checkpoints", "write them in the background, or less often"),
    "copies to the device": (
        "calls that copy to the device, with what they wait for there",
        "pin_memory=True and non_blocking=True; a wait that stays is for a busy device: a capture shows with what",
    ),
    "host compute": ("work of the host", "a capture shows which operators and Python code"),
    "blocked": ("waiting for the device, other ranks or a lock", "a capture shows which call waits"),
    "straggler": ("waiting for one slow rank", "look at that rank: its own causes are listed under it"),
    "periodic": ("single slow steps at an even distance", "what runs each so many steps: saving, logging, evaluation"),
}
"""Cause to what it is and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What slows the steps of a rank: nanoseconds a step, and the share that this is of the growth, or of all time."""

    name: str
    rank: int
    cost_ns: int
    share: float
    note: str = ""

    @property
    def what(self) -> str:
        """In words."""
        return WORDS[self.name][0]

    @property
    def do(self) -> str:
        """What to do about it."""
        return WORDS[self.name][1]


def split(steps: Steps) -> dict[str, float] | None:
    """Mean nanoseconds of a step by what the host spent it on; None for no steps. What was not measured is absent."""
    if not len(steps):
        return None
    mean = {name: _mean(steps, name) for name in ("wall_ns", "data_ns", "save_ns", "gc_ns", "delay_ns")}
    parts: dict[str, float] = {}
    wall, data, delay = mean["wall_ns"], mean["data_ns"], mean["delay_ns"]
    if data is not None:
        own = steps.loader_work() / len(steps)
        parts["data wait"], parts["data work"] = data - own, own
    for name, column in (("checkpoint", "save_ns"), ("garbage collection", "gc_ns"), ("CPU contention", "delay_ns")):
        if (value := mean[column]) is not None:
            parts[name] = value
    cpu = _mean(steps, "cpu_ns")
    if cpu is not None and wall is not None and delay is not None:
        # Collections and the thread's own work for a batch are on a CPU; saving is partly, and counts by itself.
        blocked = max(wall - cpu - delay - parts.get("data wait", 0.0), 0.0)
        parts["blocked"] = max(blocked - parts.get("checkpoint", 0.0), 0.0)
        known = parts.get("garbage collection", 0.0) + parts.get("data work", 0.0)
        parts["host compute"] = max(cpu - known, 0.0)
    moved = _mean(steps, "transfer_ns")
    if moved is not None:
        _set_apart(parts, "copies to the device", moved)
    if cpu is not None and "blocked" in parts:
        parts["interpreter lock"] = _locked_out(steps, parts["blocked"], cpu)
        parts["blocked"] -= parts["interpreter lock"]
    return parts


def _set_apart(parts: dict[str, float], name: str, cost: float) -> None:
    """A part of its own for what stands in `blocked` so far, or in `host compute`: drivers wait or spin."""
    parts[name] = cost
    for other in ("blocked", "host compute"):
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
        "data wait": DATA,
        "data work": DATA,
        "garbage collection": GC,
        "CPU contention": CPU_QUEUE,
        "interpreter lock": LOCK,
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
            note = f"every {slow.period} steps, {slow.extra_ns / 1e6:.1f} ms more"
            cost = int(slow.share * wall)
            costs.append(Cause(name="periodic", rank=steps.rank, cost_ns=cost, share=slow.share, note=note))
        found += sorted(costs, key=lambda cause: -cause.cost_ns)
    late, since = lasting_straggler(ranks)
    if late is not None:
        note = f"{late.own_ns / 1e6:.1f} ms of its own in a step, the others {late.others_ns / 1e6:.1f} ms"
        note += f", from step {since} on" if since else ""
        share = late.waited_ns / max(late.waited_ns + late.others_ns, 1)
        found.insert(0, Cause(name="straggler", rank=late.rank, cost_ns=late.waited_ns, share=share, note=note))
    return tuple(found)
