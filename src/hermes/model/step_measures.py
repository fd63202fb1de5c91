"""Measures of steps, top tables, peer waits and clocks. Integer nanoseconds; None is "not measured"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import field, measure


@measure(
    "steps",
    title="Steps",
    zh="步",
    about=(
        "`window_ms = compute_ms + exposed_comm_ms + copy_exposed_ms + free_ms`, and `comm_ms = "
        "exposed_comm_ms + overlapped_comm_ms`. All parts are null when no device task was recorded."
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class StepSplit:
    """One step of one rank, divided exactly: `window = compute + exposed comm + exposed copy + free`.

    `window_kind` is `device`, `host`, `found` or `capture`. `device`: from the end of the step before to the end of the
    last task that the step launched. `host`: without a device, from the framework's step mark to the next mark.
    `found`: as `device`, of a step that is unmarked and found by the period of launches. `capture`: the whole capture,
    from its first event to its last. All parts are None when the capture holds no device task. `preparing_ns` is the
    time from the host's mark, or from the begin of the window if that is later or no step is marked, to the next work
    of the device; `host_ns` is the length of the host's mark.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("number that the framework gave it; null for a whole capture", "Step", "步")
    window_kind: Literal["device", "host", "found", "capture"] = field(
        "`device`, `host`, `found` or `capture`: see [window](concepts.md#window)", "Window is", "窗口类型"
    )
    start_ns: int = field("start of the window on the clock of the file", "Start", "开始", kind="moment")
    window_ns: int = field("length of the window", "Window", "窗口")
    compute_ns: int | None = field("compute", "Compute", "计算", of="window_ns")
    comm_ns: int | None = field("communication", "Communication", "通信")
    exposed_comm_ns: int | None = field("communication without compute", "Exposed comm", "未掩盖通信", of="window_ns")
    overlapped_comm_ns: int | None = field("communication beside compute", "Overlapped comm", "已掩盖通信")
    copy_ns: int | None = field("copies and fills", "Copy", "拷贝")
    copy_exposed_ns: int | None = field(
        "copies without compute and communication", "Exposed copy", "未掩盖拷贝", of="window_ns"
    )
    free_ns: int | None = field("nothing of these", "Free", "空闲", of="window_ns")
    preparing_ns: int | None = field(
        "from the host's mark, else the begin, to the next device task", "Preparing", "准备"
    )
    host_ns: int | None = field("length of the host's mark", "Host", "主机")


@measure("step_trace_time.rows", title="The step by Ascend's definition", zh="昇腾定义的步分解")
@dataclass(frozen=True, slots=True, kw_only=True)
class AscendSplit:
    """A step by the definition of Ascend's `step_trace_time`: copies count as free; the device's time marks are used.

    `source` is `computed` (by Hermes from the tasks) or `reported` (read from the profiler's own file).
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("step; null for a whole capture", "Step", "步")
    source: Literal["computed", "reported"] = field(
        "`computed` by Hermes, or `reported` by the profiler's own file", "Source", "来源"
    )
    compute_ns: int = field("Computing", "Compute", "计算", kind="us")
    exposed_comm_ns: int = field("Communication(Not Overlapped)", "Exposed comm", "未掩盖通信", kind="us")
    overlapped_ns: int = field("Overlapped", "Overlapped", "已掩盖", kind="us")
    comm_ns: int = field("Communication", "Communication", "通信", kind="us")
    free_ns: int = field("Free: with copies in it", "Free", "空闲", kind="us")
    stage_ns: int = field("Stage: window less Bubble", "Stage", "阶段", kind="us")
    bubble_ns: int = field("Bubble: time in receives", "Bubble", "气泡", kind="us")
    preparing_ns: int | None = field("Preparing", "Preparing", "准备", kind="us")


@measure("totals", title="Whole capture, by rank", zh="整个采集（按卡）")
@dataclass(frozen=True, slots=True, kw_only=True)
class RankTotal:
    """All device rows of one rank's capture, without regard to steps.

    `span` runs from the first start to the last end; `idle = span - busy`; `task_ns` adds durations without merging.
    """

    rank: int = field("global rank", "Rank", "卡")
    tasks: int = field("device tasks", "Tasks", "任务数")
    span_ns: int = field("first start to last end", "Span", "跨度")
    busy_ns: int = field("compute, communication or copy", "Busy", "忙碌", of="span_ns")
    idle_ns: int = field("span less busy", "Idle", "空闲", of="span_ns")
    compute_ns: int = field("compute", "Compute", "计算", of="span_ns")
    comm_ns: int = field("communication", "Communication", "通信")
    exposed_comm_ns: int = field("communication without compute", "Exposed comm", "未掩盖通信")
    copy_ns: int = field("copies", "Copy", "拷贝")
    copy_exposed_ns: int = field("copies without compute and communication", "Exposed copy", "未掩盖拷贝")
    task_ns: int = field("durations added without merging", "Sum of tasks", "任务合计")


@measure("streams", title="Streams", zh="流")
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBusy:
    """How long one stream of one rank was busy, by component, over the capture."""

    rank: int = field("global rank", "Rank", "卡")
    stream: int | None = field("stream", "Stream", "流")
    component: str = field("`compute`, `comm`, `copy` or `wait`", "Component", "成分")
    tasks: int = field("tasks", "Tasks", "任务数")
    busy_ns: int = field("their union", "Busy", "忙碌")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """A line of a "top" table: the rows of one name added up over all ranks and steps that were read.

    `share` is of the total of its table. `detail` is the type of a kernel, the kind of a host call, the operation of
    a collective.
    """

    name: str = field("name as recorded", "Name", "名称")
    detail: str = field("what tells equal names apart", "Detail", "详情")
    ranks: tuple[int, ...] = field("ranks that have it", "Ranks", "卡")
    count: int = field("occurrences over all ranks and steps", "Count", "次数")
    total_ns: int = field("their sum", "Total", "合计")
    share: float = field("of the total of the table, 0 to 1", "Share", "占比")
    min_ns: int = field("shortest", "Least", "最小")
    median_ns: int = field("median of the ranks' medians", "Median", "中位数")
    max_ns: int = field("longest", "Most", "最大")


@measure("top.kernels", title="Kernels", zh="核函数")
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTop(TopRow):
    """Compute and copy tasks of one name and type, added up."""


@measure("top.operators", title="Operators of the host", zh="主机算子")
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTop(TopRow):
    """Framework operators of one name, added up by their own time on the host."""


@measure("top.host_calls", title="Calls of the host", zh="主机调用")
@dataclass(frozen=True, slots=True, kw_only=True)
class HostCallTop(TopRow):
    """Runtime and driver calls of one name and kind, added up."""


@measure("top.communication", title="Collectives", zh="集合通信")
@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationTop(TopRow):
    """Collectives of one operation and group, added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWait:
    """How long one rank waited for one other rank inside communication.

    Without `disjoint` the wait is the sum of the `Notify_Wait` tasks that name the peer, over all planes. With
    `disjoint` it is one wait a collective, until the last member arrives; waits that overlap count once.
    `longest_at_ns` is the start of the longest wait, or of its collective, the first of equals. `source` says what data
    the wait was taken from.
    """

    rank: int = field("who waits", "Rank", "卡")
    peer: int = field("who is waited for", "Peer", "对端")
    peer_collected: bool = field("whether the peer was read too", "Peer collected", "对端已采集")
    waits: int = field("how many waits", "Waits", "等待次数")
    total_ns: int = field("their sum over all planes, which may exceed the time that passed", "Total", "合计")
    longest_ns: int = field("the longest one", "Longest", "最长")
    longest_at_ns: int = field("when that one began, on the clock of the rank", "Longest at", "最长于")
    source: str = "Notify_Wait tasks"
    disjoint: bool = False


@measure(
    "rank_waits", title="Waits by the rank that arrived last", zh="按最后到达的卡统计的等待",
    about="How long a rank waited in collectives for the one that arrived last, over the capture, beyond the error of "
    "the clocks.",
)  # fmt: skip
@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalWait(PeerWait):
    """A `PeerWait` computed from the starts of collectives on all ranks."""

    waits: int = field("operations", "Operations", "操作数", key="operations")


@measure("waits", title="Waits inside collectives, by peer", zh="集合通信内的等待（按对端）")
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWait(PeerWait):
    """A `PeerWait` that communication tasks recorded."""


@measure("links", title="Links", zh="链路")
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeed:
    """Achieved speed of one transport of one rank: bytes of its transfers over their time, in 10^9 bytes a second."""

    rank: int = field("global rank", "Rank", "卡")
    transport: str = field("link or transport", "Transport", "传输方式")
    bytes: int = field("bytes moved", "Bytes", "数据量")
    time_ns: int = field("time of the transfers, added", "Time", "时间")
    gb_per_s: float = field("10^9 bytes a second", "Bandwidth", "带宽")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedOp:
    """Exposed communication of one operation of a rank, in nanoseconds over the capture."""

    rank: int
    op: str
    exposed_ns: int


@measure("clocks", title="Clocks", zh="时钟")
@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """The clock offset of a rank: add `offset_ns` to its times to get times on the reference rank's clock.

    `error_ns` is three robust standard deviations of the anchors (None: unknown); no skew below `error_ns` is
    significant.
    """

    rank: int = field("global rank", "Rank", "卡")
    offset_ns: int = field(
        "add it to bring this rank to the clock of the lowest rank", "Offset", "偏移", kind="ns", key="offset_ns"
    )
    error_ns: int | None = field("three robust standard deviations", "Error", "误差", kind="ns", key="error_ns")
    anchors: int = field("collectives that it rests on", "Anchors", "对齐点")
    method: Literal["same host", "collectives", "assumed"] = field(
        "`same host`, `collectives` or `assumed`", "Method", "方法"
    )
