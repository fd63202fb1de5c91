"""The simulated devices: streams that run tasks in order, events between them, operations between ranks."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

from hermes_testing.collective import Network, Timing
from hermes_testing.job import Group
from hermes_testing.profile import CommOp, Kernel, Launch, Profile, Task

_GAP_NS = 900
_EVENT_NS = 20

Member = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class Pending:
    """A task that waits on a stream. `event` is recorded by it, or waited for by it (`waits`)."""

    launch: Launch
    name: str
    task_type: str
    lasts_ns: int = 0
    kernel: Kernel | None = None
    event: int | None = None
    waits: bool = False
    bytes: int = 0
    direction: str = ""
    joint: Joint | None = None


@dataclass(slots=True, kw_only=True)
class Joint:
    """An operation that all its members must reach. `sides` are source and destination of a p2p one."""

    key: tuple[object, ...]
    op: str
    group: Group
    bytes: int
    step: int
    sides: tuple[int, int] | None
    arrivals: dict[int, int] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    done: dict[int, Timing] = field(default_factory=dict)

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that must arrive."""
        return self.sides or self.group.members


class Devices:
    """All devices of the job; `run` goes on until every stream is empty or waits."""

    def __init__(self, network: Network, profiles: list[Profile]) -> None:
        self._network, self._profiles = network, profiles
        self._queues: dict[Member, deque[Pending]] = {}
        self._free: dict[Member, int] = defaultdict(int)
        self._events: dict[tuple[int, int], int] = {}
        self._joints: dict[tuple[object, ...], Joint] = {}
        self._task_ids: dict[Member, int] = defaultdict(lambda: 100)
        self._indexes: dict[tuple[int, str], int] = defaultdict(int)
        self._moving_until: dict[int, int] = defaultdict(int)
        self._running: dict[int, tuple[Member, int]] = {}

    def push(self, rank: int, stream: int, task: Pending) -> None:
        """Put a task on a stream."""
        self._queues.setdefault((rank, stream), deque()).append(task)

    def joint(self, key: tuple[object, ...], make: Joint) -> Joint:
        """The operation of that key, shared by all members; `make` when this member is the first to ask."""
        return self._joints.setdefault(key, make)

    def drained(self, rank: int, stream: int) -> int | None:
        """When the stream ran dry, or None while it holds tasks."""
        return None if self._queues.get((rank, stream)) else self._free[rank, stream]

    def run(self) -> None:
        """Carry out every task whose conditions are met."""
        if self._network.job.contention:
            while any(self._advance(member) for member in sorted(self._queues, key=self._next_ns)):
                pass
            return
        moved = True
        while moved:
            moved = False
            for member in list(self._queues):
                while self._advance(member):
                    moved = True

    def _next_ns(self, member: Member) -> int:
        """When the first task of a stream may start: in this order a kernel knows the transfers beside it."""
        queue = self._queues[member]
        return max(self._free[member] + _GAP_NS, queue[0].launch.ready_ns) if queue else 0

    def _advance(self, member: Member) -> bool:
        """Carry out the first task of a stream; False when there is none or it must wait."""
        queue = self._queues[member]
        if not queue:
            return False
        task = queue[0]
        start = max(self._free[member] + _GAP_NS, task.launch.ready_ns)
        if task.joint is not None:
            return self._join(member, task, task.joint, start)
        end = start + (task.lasts_ns or _EVENT_NS)
        if task.kernel is not None:
            end += self._contention_ns(member[0], start, task.lasts_ns)
            self._running[member[0]] = (member, len(self._profiles[member[0]].tasks))
        if task.waits and task.event is not None:
            recorded = self._events.get((member[0], task.event))
            if recorded is None:
                return False
            end = max(end, recorded + _EVENT_NS)
        elif task.event is not None:
            self._events[member[0], task.event] = end
        queue.popleft()
        self._free[member] = end
        self._profiles[member[0]].tasks.append(self._task(member, task, start, end))
        return True

    def _contention_ns(self, rank: int, start: int, ns: int) -> int:
        """How much longer a kernel, or the rest of one, takes for the transfers that run at its start."""
        percent = self._network.job.contention
        shared = min(ns, max(0, self._moving_until[rank] - start) * 100 // (100 + percent))
        return shared * percent // 100

    def _begin_transfer(self, begin: int, done: dict[int, Timing]) -> None:
        """Let the kernels that run when a transfer begins take longer from then on."""
        for rank, timing in done.items():
            since = max(begin, self._moving_until[rank])
            self._moving_until[rank] = max(self._moving_until[rank], timing.end_ns)
            if rank not in self._running:
                continue
            member, index = self._running[rank]
            tasks = self._profiles[rank].tasks
            more = self._contention_ns(rank, since, max(0, tasks[index].end_ns - since))
            if more:
                tasks[index] = replace(tasks[index], end_ns=tasks[index].end_ns + more)
                self._free[member] += more

    def _task(self, member: Member, task: Pending, start: int, end: int) -> Task:
        self._task_ids[member] += 1
        return Task(
            kind="event" if task.event is not None else "copy" if task.bytes else "compute",
            name=task.name,
            task_type=task.task_type,
            stream=member[1],
            task_id=self._task_ids[member] % 65_536,
            start_ns=start,
            end_ns=end,
            launch=task.launch,
            kernel=task.kernel,
            bytes=task.bytes,
            direction=task.direction,
        )

    def _join(self, member: Member, task: Pending, joint: Joint, start: int) -> bool:
        """Arrive at a communication operation; the last member to arrive carries it out for all."""
        rank = member[0]
        if rank not in joint.arrivals:
            joint.arrivals[rank] = start
            joint.streams[rank] = member[1]
            if len(joint.arrivals) == len(joint.members):
                joint.done = self._carry_out(joint)
                if self._network.job.contention:
                    self._begin_transfer(max(joint.arrivals.values()), joint.done)
        if rank not in joint.done:
            return False
        timing = joint.done[rank]
        self._queues[member].popleft()
        if task.kernel is not None:
            end = timing.end_ns + task.lasts_ns
            self._free[member] = end
            self._profiles[rank].tasks.append(self._task(member, task, joint.arrivals[rank], end))
            return True
        self._free[member] = timing.end_ns
        self._profiles[rank].comms.append(self._comm(member, task, joint, timing))
        return True

    def _carry_out(self, joint: Joint) -> dict[int, Timing]:
        if joint.sides is None:
            return self._network.run(
                op=joint.op, group=joint.group, size=joint.bytes, step=joint.step, arrivals=joint.arrivals
            )
        src, dst = joint.sides
        return self._network.pair(
            group=joint.group, size=joint.bytes, step=joint.step, arrivals=joint.arrivals, src=src, dst=dst
        )

    def _comm(self, member: Member, task: Pending, joint: Joint, timing: Timing) -> CommOp:
        rank, stream = member
        index = self._indexes[rank, joint.group.hash]
        self._indexes[rank, joint.group.hash] += 1
        self._task_ids[member] += 1
        wide = joint.bytes % 2 == 0 and joint.bytes > 4
        # Of these HCCL counts one rank's part, and NCCL that and the whole.
        parts = len(joint.members) if joint.op in ("all_gather", "reduce_scatter") else 1
        return CommOp(
            name=f"{task.name}_{joint.group.hash[-3:]}_{index}_1",
            op=_own_op(joint, rank),
            group=joint.group,
            stream=stream,
            task_id=self._task_ids[member] % 65_536,
            start_ns=joint.arrivals[rank],
            end_ns=timing.end_ns,
            launch=task.launch,
            count=joint.bytes // (2 if wide else 4) // parts,
            dtype="BFP16" if wide else "FP32",
            bytes=joint.bytes,
            algorithm="MESH-RING" if joint.sides is None else "NA",
            retry=timing.retry,
            transfers=timing.transfers,
        )


def _own_op(joint: Joint, rank: int) -> str:
    if joint.sides is None:
        return joint.op
    return "send" if rank == joint.sides[0] else "recv"
