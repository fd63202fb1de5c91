"""What the simulator saw of one rank: the events that every writer turns into its own format.

All times are integer nanoseconds since the start of the capture, on a clock that all ranks share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hermes_testing.job import Group, Place

HostKind = Literal["step", "op", "python", "enqueue", "dequeue", "acl", "node", "hccl", "runtime"]
TaskKind = Literal["compute", "copy", "event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """One call on a host thread.

    `number` is the correlation of a queue call, the connection of a CANN call, the id of a Python call.
    `connections` are the CANN connections of the tasks that an operator launched itself. On CANN calls
    `dtypes` holds the mode and `item` the kernel.
    """

    kind: HostKind
    name: str
    tid: int
    start_ns: int
    end_ns: int
    number: int = 0
    item: str = "0"
    shapes: str | None = None
    dtypes: str | None = None
    sequence: int = -1
    forward_tid: int = 0
    stack: tuple[str, ...] = ()
    parent: int = -1
    connections: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Where a device task comes from: the CANN call that launched it and the operator around that."""

    connection: int
    api_ns: int
    node_ns: int
    ready_ns: int
    tid: int
    op_ns: int
    op_tid: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What one device kernel is: names, unit, usual duration, tensors."""

    op: str
    inner: str
    api: str
    type: str
    core: str
    base_ns: int
    inputs: str
    dtypes: str
    formats: str
    output: str
    output_dtype: str
    output_format: str
    blocks: int
    output_bytes: int
    cuda: str

    @property
    def name(self) -> str:
        """Name of the kernel on the device, as CANN builds it."""
        return f"{self.api}_{self.type}_{self.type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task on a stream that is no part of a communication operation."""

    kind: TaskKind
    name: str
    task_type: str
    stream: int
    task_id: int
    start_ns: int
    end_ns: int
    launch: Launch
    kernel: Kernel | None = None
    bytes: int = 0
    direction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One transfer, wait or notification on a plane of an operation; ranks are those of the group."""

    name: str
    plane: int
    context: int
    start_ns: int
    end_ns: int
    src: int
    dst: int
    transport: str
    link: str
    bytes: int
    dtype: str
    notify: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommOp:
    """One communication operation of one rank with its transfers."""

    name: str
    op: str
    group: Group
    stream: int
    task_id: int
    start_ns: int
    end_ns: int
    launch: Launch
    count: int
    dtype: str
    bytes: int
    algorithm: str
    retry: int
    transfers: tuple[Transfer, ...]

    @property
    def hccl(self) -> str:
        """The operation as HCCL spells it, such as `allReduce`."""
        return self.name.removeprefix("hcom_").split("__")[0].rstrip("_")

    @property
    def is_p2p(self) -> bool:
        """Whether it has one other side only."""
        return self.op in ("send", "recv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of device memory of one operator."""

    name: str
    bytes: int
    alloc_ns: int
    release_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """The framework's mark of one step on the host."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(slots=True, kw_only=True)
class Profile:
    """All events of one rank. `clock_ns` is what its clock is ahead of the shared one."""

    rank: int
    place: Place
    host: int
    device: int
    pid: int
    main_tid: int
    backward_tid: int
    queue_tid: int
    clock_ns: int
    groups: tuple[Group, ...]
    end_ns: int = 0
    steps: list[StepMark] = field(default_factory=list)
    calls: list[HostCall] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    comms: list[CommOp] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    frequency: list[tuple[int, int]] = field(default_factory=list)
    collections: list[tuple[int, int]] = field(default_factory=list)
