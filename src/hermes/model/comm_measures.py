"""Measures of communication: by group and operation, rank, link and packet; contention, stalls and stragglers.

Speeds are in 10^9 bytes a second. None means "not measured". A figure that needs a number of samples has it beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Message
from hermes.model.declare import field, measure


@measure(
    "communication.fits",
    title="Fixed cost and peak bandwidth",
    zh="固定开销与峰值带宽",
    about="`time = fixed + size / speed`, over operations among the same members; six of three sizes at least.",
    most=1_024,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFit:
    """The transfer time of one operation among one set of ranks, fitted as a fixed part and a part by size.

    `time = fixed + size / speed`. `peak_bus_gb_per_s` is the bus bandwidth at unlimited size. `error` is the median
    relative distance of the fit from the median time of each size.
    """

    op: str = field("operation", "Operation", "操作")
    members: tuple[int, ...] | None = field("global ranks", "Members", "成员")
    groups: tuple[str, ...] = field("groups that were taken together", "Groups", "通信域")
    operations: int = field("samples", "Operations", "操作数")
    sizes: int = field("different sizes among them", "Sizes", "大小种数")
    fixed_ns: int = field("fixed part of one operation", "Fixed cost", "固定开销")
    peak_bus_gb_per_s: float = field("bus bandwidth of a size without end", "Peak bus bandwidth", "峰值总线带宽")
    fixed_total_ns: int = field("fixed part of all", "Fixed cost, all", "固定开销合计")
    fixed_share: float = field("that over the time of all, 0 to 1", "Fixed part", "固定部分")
    error: float = field("median distance of the fit, relative", "Error", "误差", kind="share")


@measure("communication.groups", title="Groups of ranks", zh="通信域", most=1_024)
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOp:
    """One collective operation of one group, summed over all ranks and steps that were read.

    Times with `_ns` are sums over the rows of all ranks: `elapse = wait + transfer + idle`, of the `split_rows` for
    which the last arrival is known. `wait` is the time until the last member arrived, `transfer` the time after that.
    `idle` is the time after the last arrival in which no task of the operation ran. Without recorded tasks `idle` is
    None and counts as transfer. `hidden` is the part of the transfer beside which the rank computed. `waste` is wait
    over elapse. Sizes and bandwidths follow nccl-tests, over the time from the last arrival to the end.

    `parallel` is the dimension that the group serves (`dp`, `tp`, `pp`, `ep`, `cp`, `world`), from its name, or
    inferred. `error_ns` is the largest clock error of the group's ranks. `unmatched` counts operations whose rows on
    different ranks do not fit together.
    """

    group: str = field("name of the group, else its key", "Group", "通信域")
    parallel: str | None = field("dimension that it serves", "Parallel", "并行方式")
    parallel_source: Literal["name", "inferred", "unknown"] = field(
        "`name`, `inferred` (from its operations and ranks) or `unknown`", "Known from", "依据"
    )
    members: tuple[int, ...] | None = field("global ranks", "Members", "成员")
    members_source: Literal["recorded", "inferred", "unknown"] = field(
        "`recorded`, `inferred` (from the ranks that took part) or `unknown`", "Members known from", "成员依据"
    )
    size: int | None = field("members", "Size", "规模")
    ranks: tuple[int, ...] = field("ranks that were read", "Ranks", "卡")
    op: str = field("operation", "Operation", "操作")
    library: str | None = field("`hccl`, `nccl`, …", "Library", "通信库")
    operations: int = field("operations, each once", "Operations", "操作数")
    rows: int = field("operations of single ranks", "Rows", "行")
    split_rows: int = field("those whose last arrival is known", "Split", "已拆分")
    unmatched: int = field("operations whose rows do not fit together", "Unmatched", "未匹配")
    elapse_ns: int = field("sum over `rows`", "Elapsed", "耗时")
    split_elapse_ns: int = field(
        "sum over `split_rows`: wait, transfer and idle add up to it", "Elapsed, split", "已拆分耗时"
    )
    wait_ns: int | None = field("until the last member arrived", "Wait", "等待", of="elapse_ns")
    transfer_ns: int | None = field("from then on", "Transfer", "传输", of="elapse_ns")
    idle_ns: int | None = field(
        "after it, with no task of the operation under way; null where tasks are not recorded",
        "Idle",
        "空闲",
        of="elapse_ns",
    )
    hidden_ns: int | None = field("transfer beside which the rank computed", "Hidden", "已掩盖")
    waste: float | None = field("wait over elapse", "Waste", "浪费")
    error_ns: int | None = field("largest error of its clocks: shorter leads are no waits", "Clock error", "时钟误差")
    bytes: int | None = field("size of all operations", "Bytes", "数据量")
    transfer_median_ns: int | None = field(
        "from the last arrival to the end, median operation", "Median transfer", "传输中位数"
    )
    algorithm_gb_per_s: float | None = field("size over that time", "Algorithm bandwidth", "算法带宽")
    bus_gb_per_s: float | None = field("times the bus factor", "Bus bandwidth", "总线带宽")
    transport: str | None = field("link that carries most of the time", "Transport", "传输方式")
    link_gb_per_s: float | None = field(
        "speed of single links; of all links of a device where transfers are not recorded", "Link bandwidth", "链路带宽"
    )
    link_limit_gb_per_s: float | None = field(
        "what such a link is built for; null for a chip that Hermes does not know", "Link is built for", "链路规格"
    )
    of_link: float | None = field("the one over the other", "Of the link", "占链路", kind="share")


@measure("communication.kinds", title="Communication by parallelism and operation", zh="按并行方式与操作的通信")
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind:
    """All groups of one kind: groups with the same dimension (or name), operation and number of members.

    Sums are as in `GroupOp`. Bandwidths are the median and the least over `timed` groups; `slowest` lists the members
    of the group with the least bandwidth.
    """

    kind: str = field("dimension (`dp`, `tp`, `pp`, `ep`, `cp`, `world`), else name of the group", "Kind", "类别")
    op: str = field("operation", "Operation", "操作")
    size: int | None = field("members of each group", "Size", "规模")
    groups: int = field("groups", "Groups", "通信域")
    timed: int = field("groups with a bandwidth", "Timed", "可计时")
    ranks: int = field("ranks that were read", "Ranks", "卡")
    operations: int = field("operations, each once", "Operations", "操作数")
    elapse_ns: int = field("from start to end, over the rows of all ranks", "Elapsed", "耗时")
    wait_ns: int | None = field("until the last member arrived", "Wait", "等待", of="elapse_ns")
    transfer_ns: int | None = field("from then on", "Transfer", "传输", of="elapse_ns")
    idle_ns: int | None = field("after it, with no task of the operation under way", "Idle", "空闲", of="elapse_ns")
    hidden_ns: int | None = field("transfer beside which the rank computed", "Hidden", "已掩盖")
    waste: float | None = field("wait over elapse: the synchronisation-waste ratio", "Waste", "浪费")
    bytes: int | None = field("size of all operations, as nccl-tests count it", "Bytes", "数据量")
    algorithm_gb_per_s: float | None = field("size over time, median group", "Algorithm bandwidth", "算法带宽")
    bus_gb_per_s: float | None = field("that times the bus factor, median group", "Bus bandwidth", "总线带宽")
    least_bus_gb_per_s: float | None = field("the slowest group", "Least bus bandwidth", "最低总线带宽")
    slowest: tuple[int, ...] = field("its ranks", "Slowest", "最慢")
    transport: str | None = field("link that carries most of the time", "Transport", "传输方式")
    of_link: float | None = field(
        "speed over what the link is built for, median group", "Of the link", "占链路", kind="share"
    )


@measure("communication.slow_ranks", title="Ranks that arrive last", zh="最后到达的卡", most=64)
@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank:
    """How often one rank was the last to arrive at collectives, and how long all other members waited for it alone.

    `held_ns` is the length of the union of these waits, beyond the clock errors. Blocks are steps (collectives where no
    step is known), because collectives of one step are not independent. `p_value` is the chance that one of `members`
    equal ranks is last in as many of `blocks`, times the number of ranks. `noise_p_value` is the chance that a rank is
    as late by the usual variation of steps. With few steps only `noise_p_value` can show a constant delay.
    `own_wait_ns` is what the rank itself waited for others: a rank that waits passes a delay on.
    """

    rank: int = field("who arrives last", "Rank", "卡")
    collected: bool = field("whether it was read", "Collected", "已采集")
    operations: int = field("operations that it could be judged by", "Operations", "操作数")
    last: int = field("in how many it was last, beyond the clocks' error", "Last", "最后到达")
    blocks: int = field("steps; operations where no step is known", "Blocks", "核数")
    blocks_last: int = field("in how many of them it held the others up longest", "Blocks last", "最后到达的步")
    held_ns: int = field("how long all others of an operation were there without it, overlaps once", "Held", "拖延")
    median_lead_ns: int = field("time between the last but one and it", "Median lead", "中位落后")
    own_wait_ns: int = field("what it waited itself: a rank that waits passes a delay on", "Own wait", "自身等待")
    error_ns: int = field("error of the clocks", "Clock error", "时钟误差")
    p_value: float = field(
        "chance that any rank gets `blocks_last` of `blocks` when all are alike", "P value", "P 值", kind="chance"
    )
    noise_p_value: float | None = field(
        "chance that any rank is as late in more than half of its steps by noise; null for one step",
        "P value of the delay", "延迟的 P 值", kind="chance", default=None,
    )  # fmt: skip

    @property
    def chance(self) -> float:
        """The probability that chance makes the rank last: the smaller of the p-values by frequency and by lateness."""
        return self.p_value if self.noise_p_value is None else min(self.p_value, self.noise_p_value)


@measure(
    "communication.arrivals",
    title="Waits for the last rank, by group",
    zh="按通信域统计的等待",
    about=(
        "How long each rank waits inside the collectives of a group for the last one to arrive; groups of"
        " which two ranks were read, those with the longest waits first, at most 2048 rows. Waits within "
        "the clocks' errors are 0."
    ),
    most=2_048,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupArrival:
    """How long one rank of a group waited for the last member, over `operations`; in `last` of them the rank was last.

    Waits within the clock errors are 0. `first_rank`, the lowest rank of the group that was read, tells groups of one
    name apart.
    """

    group: str = field("name of the group, else its key", "Group", "通信域")
    first_rank: int = field(
        "least rank of the group that was read: tells groups of one name apart", "First rank", "首卡"
    )
    parallel: str | None = field("dimension that it serves", "Parallel", "并行方式")
    rank: int = field("who waits", "Rank", "卡")
    operations: int = field("operations whose last arrival is known", "Operations", "操作数")
    last: int = field("in how many of them it was the last itself", "Last", "最后到达")
    median_wait_ns: int = field("median wait", "Median wait", "等待中位数")
    p90_wait_ns: int = field("a tenth of the waits is longer", "A tenth over", "一成超过")
    most_wait_ns: int = field("longest wait", "Longest wait", "最长等待")
    total_wait_ns: int = field("all waits", "Total wait", "等待合计")


@measure("communication.link_pairs", title="Links between pairs of ranks", zh="卡间链路")
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPair:
    """Transfers between one rank and another over one link, as recorded by the rank that carried them out.

    `ratio` is the median over classes (kind, size, step) of the link's median time over that of its peers: links of the
    same transport that moved the same size. In `slower` of `compared` classes the link took over 5 % longer than the
    peers' median. `p_value` is the chance of that when no link is slower, times the number of links. `excess_ns` is the
    time of the link's transfers beyond that of its peers, without stalls. `same_host` tells whether both ranks are on
    one host, None where a host is not recorded.
    """

    rank: int = field("rank that carried the transfers out", "Rank", "卡")
    peer: int = field("the other side", "Peer", "对端")
    transport: str = field("link", "Transport", "传输方式")
    source: Literal["tasks", "sums"] = field(
        "`tasks`, or `sums` of the profiler where no transfer is recorded", "Source", "来源"
    )
    transfers: int | None = field("transfers", "Transfers", "传输次数")
    bytes: int = field("bytes moved", "Bytes", "数据量")
    time_ns: int = field("their time, added", "Time", "时间")
    gb_per_s: float = field("the one over the other", "Bandwidth", "带宽")
    of_link: float | None = field("over what such a link is built for", "Of the link", "占链路", kind="share")
    ratio: float | None = field(
        "time over that of the other links for the same size in the same step, median", "Ratio", "比值"
    )
    compared: int = field("sizes and steps that could be compared", "Compared", "比较次数")
    slower: int = field("in how many of them it was over 5 % slower", "Slower", "较慢")
    excess_ns: int | None = field("what it took longer than its peers, stalls left out", "Excess", "超出")
    p_value: float | None = field(
        "chance that any link is slower so often when none is", "P value", "P 值", kind="chance"
    )
    same_host: bool | None = field(
        "whether both ranks are on one host; null where a host is not recorded", "Same host", "同一主机", default=None
    )


@measure("communication.packets", title="Packets by size", zh="按大小的数据包")
@dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """Transfers of one transport with sizes in `[least_bytes, 2 * least_bytes)`, over all ranks."""

    transport: str = field("link", "Transport", "传输方式")
    least_bytes: int = field("transfers from this size up to twice it", "Least", "最小")
    transfers: int = field("how many", "Transfers", "传输次数")
    bytes: int = field("bytes moved", "Bytes", "数据量")
    time_ns: int = field("their time, added", "Time", "时间")
    gb_per_s: float = field("the one over the other", "Bandwidth", "带宽")


@measure("communication.alignment", title="Alignment of transfers", zh="传输对齐")
@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Transfers of a transport, or whole operations, whose size is above 512 bytes and no multiple of 512.

    `what` is a transport, or `operations`. Times are sums over all ranks. Source of the 512: byte alignment advice of
    MindStudio Insight and msprof-analyze.
    """

    what: str = field("link, or `operations`", "What", "内容")
    counted: int = field("transfers or operations", "Counted", "计数")
    unaligned: int = field("sizes above 512 bytes that are no multiple of 512", "Unaligned", "未对齐")
    time_ns: int = field("time of all", "Time", "时间")
    unaligned_time_ns: int = field("time of the unaligned ones", "Unaligned time", "未对齐耗时", of="time_ns")
    gb_per_s: float | None = field("speed of the others", "Bandwidth", "带宽")
    unaligned_gb_per_s: float | None = field("speed of the unaligned ones", "Unaligned bandwidth", "未对齐带宽")


@measure("communication.stalls", title="Stalled transfers", zh="停顿的传输")
@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Transfers of one rank that took many times their usual time, as retransmissions do.

    `what` is a transport. Where no transfers are recorded, `what` is whole operations, of no one rank. `excess_ns` is
    the time of these transfers beyond the usual time.
    """

    rank: int | None = field("whose transfers; null for whole operations", "Rank", "卡")
    what: str = field("link, or the operation where no transfers are recorded", "What", "内容")
    counted: int = field("transfers or operations", "Counted", "计数")
    stalled: int = field("those of ten times the usual time, and a millisecond more", "Stalled", "停顿次数")
    excess_ns: int = field("what these took longer than usual", "Excess", "超出")
    longest_ns: int = field("the longest", "Longest", "最长")
    longest_at_ns: int = field("its start, on the clock of the rank", "Longest at", "最长于")


@measure("communication.contention", title="Work beside communication", zh="与通信并行的计算")
@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """Contention of kernels and communication: the time of the same work with and without the other kind beside it.

    `slowdown` is the median time with the other kind over the median time without. `loss_ns` is the additional time of
    the rows that ran beside the other kind.
    """

    kind: Literal["compute", "communication"] = field(
        "`compute`: kernels beside transfers; `communication`: operations beside compute", "Kind", "类别"
    )
    name: str = field("type of kernel, or operation and group", "Name", "名称")
    detail: str = field("shapes or size", "Detail", "详情")
    beside: int = field("samples with the other kind beside at least 80 % of their time", "Beside", "同时进行")
    alone: int = field("samples with it beside at most 5 %", "Alone", "单独")
    beside_median_ns: int = field("median of the former", "Median beside", "并行中位数")
    alone_median_ns: int = field("median of the latter", "Median alone", "单独中位数")
    slowdown: float = field("the one over the other", "Slowdown", "变慢倍数")
    loss_ns: int = field("what the former took longer", "Lost", "损失")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationNote:
    """A part of communication that could not be measured, and the reason."""

    text: Message
