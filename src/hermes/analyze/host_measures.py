"""Measures of overlap, input, host and memory: frozen rows, integer nanoseconds and bytes, None for "not measured"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.analyze.tensor_measures import DenseTable, MixedOrders, Padding, RankShape


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapPart:
    """One component of a step and what ran beside it.

    `component` is `compute`, `communication` (of `group`), `copy` (`group` is its direction), `data input` (the host
    in a call that fetches a batch) or `host` (the host in an operator or runtime call that does not wait). `busy_ns` is
    the union of its `events`. `exposed_ns` is the part beside which no component of an earlier kind ran, in that order;
    `alone_ns` the part beside which nothing ran. `overlap` is `1 - exposed/busy`; None for compute, which is first.
    """

    component: str
    group: str | None
    events: int
    busy_ns: int
    exposed_ns: int
    alone_ns: int

    @property
    def label(self) -> str:
        """The component with its group."""
        return self.component if self.group is None else f"{self.component} {self.group}"

    @property
    def overlap(self) -> float | None:
        """The share of the component that something before it in the order hides; None for what comes first."""
        return None if self.component == "compute" or not self.busy_ns else 1 - self.exposed_ns / self.busy_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapState:
    """How long exactly these components ran at once; no component: nothing ran."""

    components: tuple[str, ...]
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOverlap:
    """The window of a step by what ran at once; the `states` add up to `window_ns`, to the nanosecond.

    `absent` names the components of which nothing was recorded in the window.
    """

    rank: int
    step: int | None
    window_ns: int
    parts: tuple[OverlapPart, ...]
    states: tuple[OverlapState, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetches:
    """How the training loop of one rank got its batches, over the capture.

    `kind` is `main process` (the loop itself reads and processes), `workers` (it waits for other processes) or
    `not told`. `wait_ns` sums the calls; of `fetches` of them `long` took at least a millisecond: none was ready.
    `queue_wait_ns` is the part in which the loop waited at the queue of its workers, and `early` how many batches
    arrived before the one that was due: both from Python frames. `epoch_ns` is the time in which `epochs` iterators
    were made, and the workers of others ended; `first_ns` that of the fetches that came first after them.
    `reading_ns` and `processing_ns` are the parts of the calls of the main process that frames and stacks tell.
    `device_free_ns` is the part of the calls in which the device had nothing to do.
    """

    rank: int
    kind: Literal["main process", "workers", "not told"]
    steps: int
    fetches: int
    wait_ns: int
    median_ns: int
    longest_ns: int
    longest_step: int | None
    long: int
    device_free_ns: int | None
    queue_wait_ns: int | None
    early: int | None
    epochs: int | None
    epoch_ns: int | None
    reading_ns: int | None
    processing_ns: int | None
    first_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRates:
    """Batches a second that each stage of one rank gives, against the demand.

    `demand` is what the loop would take if no batch made it wait: one fetch in the median step less its fetches.
    `supply` is what reading and processing give: known where the loop does them itself, or waits at each fetch.
    `fetching` is what copies to the device allow. `workers_needed` is how many processes keep up with the demand, where
    the time of one batch is known; `cores_free` how many cores the host had to spare, where it was sampled.
    """

    rank: int
    demand: float | None
    supply: float | None
    fetching: float | None
    workers_needed: int | None
    cores_free: float | None
    cores: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputQueue:
    """One queue on the way of a batch, at the moments at which it was looked at.

    `queue` is `data` (output of an operation of the pipeline), `host` (batches that wait for the loop) or `device`
    (tasks that wait on the device when the loop begins to fetch). `empty` and `full` are shares of `samples`.
    """

    rank: int
    queue: Literal["data", "host", "device"]
    name: str
    workers: int | None
    capacity: int | None
    average: float | None
    usage: float | None
    empty: float | None
    full: float | None
    samples: int | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCopies:
    """Copies from the host to the device of one rank, over the capture; `pageable_bytes` where the profiler tells."""

    rank: int
    copies: int
    bytes: int | None
    time_ns: int
    exposed_ns: int
    pageable_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPart:
    """How long the host was in one kind of work in a step, and how long the device was free meanwhile."""

    reason: str
    ns: int
    device_free_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHost:
    """The host's mark of one step by what its dispatching threads did; the parts add up to `host_ns`.

    A moment counts for the first reason that fits it, in the order of `knowledge/host_work.py`. The dispatching threads
    are the one that marks the steps and those of autograd. `queue_ns` is the work of threads that carry a task queue
    out, beside them; None where there is no such queue.
    """

    rank: int
    step: int | None
    start_ns: int
    host_ns: int
    parts: tuple[HostPart, ...]
    threads: int
    queue_ns: int | None

    def of(self, *reasons: str) -> int:
        """Nanoseconds for these reasons."""
        return sum(part.ns for part in self.parts if part.reason in reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """How the host fed the device in one step.

    Of `tasks` (kernels, copies, collectives) `linked` have their launch in the capture; all that follows is of these.
    `interval_ns` is the median time between two launches, `kernel_ns` the median kernel; `ratio` is the time of the
    host's own work for dispatch over the time of all kernels: above 1 the host cannot keep up. `small` kernels take
    less than 10 us. `late` tasks were launched when the device had nothing left to do, `late_free_ns` is how long it
    had been free until they began. `delay_ns` is the median time from launch to start.
    """

    rank: int
    step: int | None
    tasks: int
    linked: int
    interval_ns: int | None
    kernel_ns: int | None
    ratio: float | None
    small: int
    late: int
    late_free_ns: int
    delay_ns: int | None
    task_queue: Literal["on", "off"] | None
    task_queue_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Tasks launched but not begun on one device over the window of a step, from launch links alone.

    All are weighted by time. `curve` holds the mean depth of equal slices of the window. `full` is the share of time
    with at least 1,000 tasks, where a CUDA queue holds 1,024.
    """

    rank: int
    step: int | None
    device_id: int | None
    tasks: int
    mean: float
    median: int
    most: int
    empty: float
    full: float
    curve: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCall:
    """Calls of one place in the code that waited for the device in one step.

    `names` are the runtime calls, `operator` the framework operator around them, `source` the line of the user's code.
    `wait_ns` is the time in the calls, and splits into what the device did meanwhile: the four `_ns` that follow add up
    to it. `refill_ns` is the time from their ends in which the device had nothing to do until it began something new.
    """

    rank: int
    step: int | None
    names: tuple[str, ...]
    operator: str
    source: str | None
    calls: int
    wait_ns: int
    compute_ns: int
    comm_ns: int
    copy_ns: int
    idle_ns: int
    refill_ns: int
    longest_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvents:
    """What took the host of one rank over the capture: calls of one kind (`what`).

    `calls` are those that lie in no other of the kind, in `steps_hit` of `steps` steps; `ns` is their union, `names`
    the calls that take most, each with how many and how long. `longest_at_ns` is the start of the longest call, the
    first of equals. `device_free_ns` is the part in which the device had nothing to do. All None: it was not recorded.
    `source` says what it was taken from, or why it was not. Where it is told, `recorded` is how many calls of
    operators cost a profiler as much as all that it recorded in them, and `inside` is by kind how much of `ns` was in
    calls of others.
    """

    rank: int
    what: str
    steps: int
    steps_hit: int | None
    calls: int | None
    ns: int | None
    longest_ns: int | None
    device_free_ns: int | None
    names: tuple[tuple[str, int, int], ...]
    source: str
    longest_at_ns: int | None = None
    recorded: float | None = None
    inside: tuple[tuple[str, int], ...] = ()

    @property
    def recorded_a_step(self) -> float | None:
        """`recorded` as a mean over steps."""
        return None if self.recorded is None else self.recorded / max(1, self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """Dynamic shapes of one rank. `dynamic` of `known` kernels were built for any shape.

    `new` counts pairs of operator type and input shapes that a step has and none before it in the capture had; None for
    a single step.
    """

    rank: int
    known: int
    dynamic: int
    kernels: int
    distinct: int
    new: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """How busy the cores of a rank's host were, where they were sampled.

    `usage` is the mean over `cores` and samples, 0 to 1. No profiler that Hermes reads records run-queue delay, context
    switches, or the load of other processes.
    """

    rank: int
    cores: int
    usage: float
    busiest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValues:
    """One setting and its values, each with the ranks that have it; a value of None is known to be unset."""

    source: str
    name: str
    values: tuple[tuple[str | None, tuple[int, ...]], ...]
    absent: tuple[int, ...]

    @property
    def differs(self) -> bool:
        """Whether ranks that record it disagree."""
        return len(self.values) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """The highest marks of one allocator of one rank over the capture.

    `fragmentation` is `1 - allocated/reserved` at the moment of the highest reservation that came first.
    """

    rank: int
    component: str
    device_id: int | None
    samples: int
    allocated_bytes: int | None
    allocated_at_ns: int | None
    allocated_step: int | None
    reserved_bytes: int | None
    active_bytes: int | None
    fragmentation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """How what an allocator has handed out grows from step to step, at the same phase: where the steps begin.

    The slope of the least-squares line through `steps` points, and how well it fits (`r2`, 1 is a line).
    """

    rank: int
    component: str
    device_id: int | None
    steps: int
    bytes_per_step: float
    r2: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """Forward work that the backward pass of a step did again (activation checkpointing).

    `ops` operators, `host_ns` on the host, `device_ns` of kernels that they launched, of `compute_ns` in all.
    """

    rank: int
    step: int | None
    ops: int
    host_ns: int
    device_ns: int | None
    compute_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardPart:
    """Nodes of the backward pass of a step: their time on the host, that of kernels that they launched, and the calls
    recorded in them.
    """

    host_ns: int
    device_ns: int | None
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedGradients:
    """Gradients of a step that no optimizer uses: `unused` of `gradients`, and the `shapes` that hold most, how often.

    `dropped` of them give way to later gradients of the same parameters before an optimizer uses these.
    `whole` are the nodes of the backward pass that lead to such gradients alone, `partly` those that compute one and
    may lead to others that are used. `compute_ns` is all compute of the window.
    """

    rank: int
    step: int | None
    gradients: int
    unused: int
    dropped: int = 0
    shapes: tuple[tuple[str, int], ...]
    whole: BackwardPart
    partly: BackwardPart
    compute_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who held memory at the moment at which the blocks taken during the capture were most.

    `module` is the innermost `nn.Module` around the call that took them; None where no module was running or recorded.
    """

    rank: int
    module: str | None
    operator: str
    blocks: int
    bytes: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What steps of a rank were like before the capture, without its profiler, as Hermes' monitor counted them.

    Means over `steps` steps: the length of one, its time in collections of garbage, in data loaders and what of that
    was its own work, in torch.save and in optimizers' steps, its page faults without input, and what such a fault costs
    on that machine; None where it was not counted. `spread_ns` is the median absolute deviation of their lengths.
    `captured_faults` are the page faults of a captured step. `calls` is how many calls of operators cost a profiler as
    much as all that the capture recorded of the host in a step. `cpu_ns` is the time of the stepping thread on a core,
    `delay_ns` that in which it could have run and waited for one.
    """

    rank: int
    steps: int
    step_ns: int
    gc_ns: int | None
    data_ns: int | None
    data_cpu_ns: int | None
    save_ns: int | None
    optimizer_ns: int | None
    minor_faults: int | None
    fault_ns: int | None
    spread_ns: int | None
    captured_faults: int | None
    calls: float
    cpu_ns: int | None = None
    delay_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSide:
    """Overlap, input pipeline, host and memory. Of a step each rank's is that of median window."""

    overlap: tuple[StepOverlap, ...] = ()
    fetches: tuple[Fetches, ...] = ()
    rates: tuple[InputRates, ...] = ()
    queues: tuple[InputQueue, ...] = ()
    copies: tuple[InputCopies, ...] = ()
    steps: tuple[StepHost, ...] = ()
    dispatch: tuple[Dispatch, ...] = ()
    depths: tuple[QueueDepth, ...] = ()
    syncs: tuple[SyncCall, ...] = ()
    events: tuple[HostEvents, ...] = ()
    shapes: tuple[Shapes, ...] = ()
    contention: tuple[Contention, ...] = ()
    settings: tuple[SettingValues, ...] = ()
    peaks: tuple[MemoryPeak, ...] = ()
    growth: tuple[MemoryGrowth, ...] = ()
    recompute: tuple[Recompute, ...] = ()
    unused: tuple[UnusedGradients, ...] = ()
    holders: tuple[Holder, ...] = ()
    padding: tuple[Padding, ...] = ()
    tables: tuple[DenseTable, ...] = ()
    kept_joins: tuple[RankShape, ...] = ()
    spread: tuple[RankShape, ...] = ()
    orders: tuple[MixedOrders, ...] = ()
    before: tuple[Before, ...] = ()
