"""Measures of the host: its work by reason, dispatch, waits, settings. Integer nanoseconds; None is "not measured"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import NestedTable, derived, field, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPart:
    """Host time in one kind of work in a step, and the time for which the device was free meanwhile."""

    reason: str = field("what the host did, as on a critical path", "Reason", "原因")
    ns: int = field("how long", "Time", "时间", of="parent.host_ns")
    device_free_ns: int | None = field(
        "part in which the device had nothing to do", "Device free", "设备空闲", of="parent.host_ns"
    )


@measure(
    "host.steps", title="What the host did in the step", zh="主机在步内的工作", about="The parts add up to `host_ms`.",
    opened=(
        NestedTable(
            name="parts", title="What the host did in the step", zh="主机在步内的工作",
            about="What the dispatching threads did in a typical step; the rows of one rank add up to it.",
        ),
    ),
)  # fmt: skip
@dataclass(frozen=True, slots=True, kw_only=True)
class StepHost:
    """The host time of one step, divided by what the dispatching threads did; the parts add up to `host_ns`.

    A moment counts for the first reason that fits it, in the order of `knowledge/host_work.py`. The dispatching threads
    are the one that marks the steps and those of autograd. `queue_ns` is the work of threads that carry a task queue
    out, beside them; None where there is no such queue.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    start_ns: int = field("start of the host's mark; of the window where none is", "Start", "开始", kind="moment")
    host_ns: int = field("its length", "Host", "主机")
    parts: tuple[HostPart, ...] = field("by reason", "Parts", "组成")
    threads: int = field("threads that dispatch", "Threads", "线程数")
    queue_ns: int | None = field("work of the thread that carries the task queue out", "In the queue", "排队")

    def of(self, *reasons: str) -> int:
        """Nanoseconds of the step that the host spent for any of the given reasons."""
        return sum(part.ns for part in self.parts if part.reason in reasons)


@measure("host.dispatch", title="Handing over work to the device", zh="向设备下发任务")
@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """How fast the host launched the device tasks of one step, and how far ahead of the device.

    Of `tasks` (kernels, copies, collectives) `linked` have their launch in the capture; all other numbers are of linked
    tasks. `interval_ns` is the median time between two launches, `kernel_ns` the median kernel. `ratio` is the host's
    own dispatch time over the time of all kernels: above 1 the host cannot keep up. `small` kernels take less than 10
    us. `late` tasks were launched when the device had nothing left to do; `late_free_ns` is how long the device had
    been free until late tasks began. `delay_ns` is the median time from launch to start.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    tasks: int = field("kernels, copies and collectives of the step", "Tasks", "任务数")
    linked: int = field("of them with their launch in the capture; what follows is of these", "Linked", "有关联")
    interval_ns: int | None = field("median time between two launches", "Between launches", "下发间隔")
    kernel_ns: int | None = field("median kernel", "Kernel", "核函数")
    ratio: float | None = field("the host's time for dispatch over the time of all kernels", "Ratio", "比值")
    small: int = field("kernels below 10 us", "Small", "小核函数")
    late: int = field("tasks launched when the device had nothing left to do", "Late", "下发过晚")
    late_free_ns: int = field("how long it had been free until they began", "Free by late ones", "过晚造成的空闲")
    graphed: int = field(
        "tasks of the step that a launch of a captured graph started", "In graphs", "图内任务", default=0
    )
    delay_ns: int | None = field("median time from launch to start", "Delay", "延迟")
    task_queue: Literal["on", "off"] | None = field("`on` or `off`: torch_npu's task queue", "Task queue", "任务队列")
    task_queue_source: str = field("what tells", "Known from", "依据")


@measure("host.queue_depth", title="Tasks that wait on the device", zh="设备上等待的任务", about="Weighted by time.")
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Device tasks launched but not begun, on one device over the window of a step, computed from launch links.

    All values are weighted by time. `curve` holds the mean depth of equal slices of the window. `full` is the share of
    time with at least 1,000 tasks, where a CUDA queue holds 1,024.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    device_id: int | None = field("device", "Device", "设备")
    tasks: int = field("tasks whose launch is in the capture", "Tasks", "任务数")
    mean: float = field("mean depth", "Mean", "平均")
    median: int = field("median depth", "Median", "中位数")
    most: int = field("greatest depth", "Most", "最大")
    empty: float = field("share of the window with none", "Empty", "空", kind="share")
    full: float = field("share with 1,000 and more", "Full", "满", kind="share")
    curve: tuple[float, ...] = field("mean depth in fifty equal slices of the window", "Over time", "随时间")


@measure(
    "host.sync_calls",
    title="Calls that wait for the device",
    zh="等待设备的同步调用",
    about="One row for each place in the code. What the device did meanwhile adds up to `wait_ms`.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCall:
    """Calls from one place in the code that waited for the device in one step.

    `names` are the runtime calls, `operator` the framework operator around them, `source` the line of the user's code.
    `wait_ns` is the time in the calls, and splits by what the device did meanwhile: the four `_ns` that follow add up
    to `wait_ns`. `refill_ns` is the time from the end of a call until the device began something new, while the device
    had nothing to do.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    names: tuple[str, ...] = field("runtime calls", "Names", "名称")
    operator: str = field("framework operator around them; empty where none is", "Operator", "算子")
    source: str | None = field("line of the user's code, from a stack or a Python frame", "Source", "来源")
    calls: int = field("how many", "Calls", "次数")
    wait_ns: int = field("time in them", "Wait", "等待")
    compute_ns: int = field("the device computed", "Compute", "计算", of="wait_ns")
    comm_ns: int = field("it communicated, and did not compute", "Communication", "通信", of="wait_ns")
    copy_ns: int = field("it copied, and did neither", "Copy", "拷贝", of="wait_ns")
    idle_ns: int = field("it had nothing to do", "Idle", "空闲", of="wait_ns")
    refill_ns: int = field("it had nothing to do from their ends to the next task", "Refilling", "重新填充")
    longest_ns: int = field("longest call", "Longest", "最长")
    longest_at_ns: int = field("when it began, on the clock of the rank", "Longest at", "最长的开始", kind="moment")


@measure("host.events", title="Events of the host", zh="主机事件", shown=lambda row: row.calls != 0)
@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvents:
    """Host calls of one kind (`what`) on one rank over the capture, with their time and the device's free time.

    `calls` counts the outermost calls, in `steps_hit` of `steps` steps. `ns` is the length of the union of the calls.
    `names` are the calls that take most, each with count and time. `longest_at_ns` is the start of the longest call,
    the first of equals. `device_free_ns` is the part in which the device had nothing to do. All are None if such calls
    were not recorded. `source` says what data the calls were taken from, or why they were not recorded. `recorded` is
    the profiler's cost inside these calls, as a number of operator calls that cost the profiler the same. `inside`
    gives, by kind, the part of `ns` in calls of other kinds. `recorded` and `inside` may be missing.
    """

    rank: int = field("global rank", "Rank", "卡")
    what: str = field("what the calls are for", "What", "内容")
    steps: int = field("steps of the capture", "Steps", "步数")
    steps_hit: int | None = field("of them with such calls", "Steps hit", "受影响步数")
    calls: int | None = field("calls in no other of the kind; null: not recorded", "Calls", "次数")
    ns: int | None = field("their union", "Time", "时间")
    longest_ns: int | None = field("longest call", "Longest", "最长")
    device_free_ns: int | None = field("part in which the device had nothing to do", "Device free", "设备空闲")
    names: tuple[tuple[str, int, int], ...] = field(
        "the calls that take most", "Names", "名称", keys=("name", "calls", "ns")
    )
    source: str = field("what it was taken from, or why it was not", "Source", "来源")
    longest_at_ns: int | None = None
    recorded: float | None = None
    inside: tuple[tuple[str, int], ...] = ()

    @property
    def recorded_a_step(self) -> float | None:
        """`recorded` as a mean over steps: the profiler's cost in a step, as a number of operator calls."""
        return None if self.recorded is None else self.recorded / max(1, self.steps)


@measure("memory.allocator", title="Work of the allocator", zh="分配器的工作")
@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorCalls(HostEvents):
    """Calls of the device's memory allocator on one rank, with the fields that `HostEvents` has."""


@measure("host.shapes", title="Shapes that change", zh="变化的形状")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """Dynamic shapes of one rank: of `known` kernels, `dynamic` were built for any shape.

    `new` counts pairs of operator type and input shapes that occur in a step and in no earlier step of the capture;
    None for a single step.
    """

    rank: int = field("global rank", "Rank", "卡")
    known: int = field("kernels of which it is recorded whether they were built for one shape", "Known", "已知")
    dynamic: int = field("of them built for any shape", "Dynamic", "动态")
    kernels: int = field("kernels with shapes", "Kernels", "核函数数")
    distinct: int = field("pairs of operator type and input shapes", "Distinct", "不同")
    new: int | None = field("of them first seen after the first step; null for a single step", "New", "新增")


@measure("host.contention", title="Load of the host's cores", zh="主机各核的负载")
@dataclass(frozen=True, slots=True, kw_only=True)
class CoreLoad:
    """The load of the host cores of a rank, where the capture sampled them.

    `usage` is the mean over `cores` and samples, 0 to 1. No profiler that Hermes reads records run-queue delay, context
    switches, or the load of other processes.
    """

    rank: int = field("global rank", "Rank", "卡")
    cores: int = field("cores", "Cores", "核数")
    usage: float = field("mean load, 0 to 1", "Filled", "填充率", kind="share")
    busiest: float = field("mean load of the busiest core", "Busiest core", "最忙的核", kind="share")


@measure("host.settings", title="Settings of the ranks", zh="各卡的设置", shown=lambda row: row.differs or row.absent)
@dataclass(frozen=True, slots=True, kw_only=True)
class SettingValues:
    """A setting and its values, each with the ranks that have the value; None means known to be unset."""

    source: str = field("`environment`, `profiler`, `job` or `version`", "Source", "来源")
    name: str = field("setting", "Name", "名称")
    values: tuple[tuple[str | None, tuple[int, ...]], ...] = field(
        "its values", "Values", "取值", keys=("value", "ranks")
    )
    absent: tuple[int, ...] = field("ranks that do not record it", "Not recorded", "未记录")

    @property
    @derived("whether ranks that record it disagree", "Differs", "有差异")
    def differs(self) -> bool:
        """Whether ranks that record the setting have different values."""
        return len(self.values) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Means over steps of a rank before the capture, without its profiler, as Hermes' monitor counted them.

    All values are means over `steps` steps; None if not counted. The times are the step's length, garbage collections,
    data loaders (in all, and the loaders' own work), torch.save, and optimizers' steps. Page faults are those without
    input, with the cost of one fault on that machine. `spread_ns` is the median absolute deviation of the step lengths.
    `captured_faults` are the page faults of a captured step. `calls` is how many operator calls cost a profiler as much
    as all that the capture recorded of the host in a step. `cpu_ns` is the time of the stepping thread on a core;
    `delay_ns` is the time for which that thread could have run and waited for a core. Workers of loaders were started
    `starts` times, which took `start_ns` a step with the waits for their first batches; None if no worker was started.
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
    start_ns: int | None = None
    starts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """The settings that one rank recorded: the source, name and value of each setting."""

    rank: int
    values: tuple[tuple[str, str, str | None], ...]
