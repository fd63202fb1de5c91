"""Measures of compute: rows by operator signature, class and step; rooflines, MFU and the chips behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import derived, field, measure

Bound = Literal["compute", "memory", "neither"]
CoreUnit = Literal["cube", "vector", "scalar", "loading", "storing"]
"""The units of a core: products, vectors, scalar code, loads from memory, and stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Lost parts of compute time. Each part is taken from what the earlier parts leave; None if not measured.

    `frequency_ns`: the clock was below its rated frequency. `blocks_ns`: cores had no block to work on. `pipe_ns`: no
    pipe of the core was busy for 80 % of the time. `layout_ns` is not one of these parts: it is the whole time of
    casts, transpositions and format conversions, which compute nothing.
    """

    frequency_ns: int | None = field("lost because the clock was below its rated one", "Lost by clock", "降频损失")
    blocks_ns: int | None = field("lost because cores had no block to work on", "Lost by idle cores", "核未用满损失")
    pipe_ns: int | None = field(
        "lost because no pipe of the core was busy for 80 % of the time", "Lost in the pipe", "流水损失"
    )
    layout_ns: int = field("casts, transpositions and format conversions, whole", "Formats and layouts", "格式与布局")


SWITCHED = ("tf32", "hf32")
"""Number types in which a setting computes products of float32 tensors; the tensors stay float32."""
OTHERS = "other operators"
"""The first words of the row of a class that sums the shortest signatures, on a rank with very many signatures."""


@measure("compute.operators", title="Operators by shape, against their roof", zh="按形状的算子与屋顶线", most=500)
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """All calls of one operator with the same shapes and types, on one kind of chip, over all ranks and steps.

    `calls` are calls of the framework's operator (kernels where they have their own shapes). `ns` is the time of all
    kernels of these calls. `flops` and `bytes` are of one call, None without a formula. `tflops`, `gb_per_s`,
    `roof_share` and `bound` are of the call of median time. `limit` is the lower of the chip's two roofs at this work.
    `roof_share` is never above 1: if the measured one is above, `note` says what is known instead. `aligned`: the inner
    axes of both matrices of a product are multiples of the chip's tile. `ai_cpu_ns` is the part of `ns` on AI CPU, None
    where units are not recorded.
    """

    kind: str = field("class", "Class", "类别", key="class")
    operator: str = field(
        "the framework's operator, Ascend's type, or the kernel where none is recorded", "Operator", "算子"
    )
    shapes: str = field(
        "input shapes, `;` between tensors and `,` between dimensions; storage shapes on Ascend", "Shapes", "形状"
    )
    dtypes: str = field("input types", "Types", "数据类型")
    chip: str | None = field("chip whose roof it is held against", "Chip", "芯片")
    ranks: tuple[int, ...] = field("ranks that have it", "Ranks", "卡")
    calls: int = field("calls of the operator", "Calls", "次数")
    kernels: int = field("kernels, with copies and fills beside them", "Kernels", "核函数数")
    ns: int = field("their time", "Total", "合计", key="total_ms")
    share: float = field("of the time of all compute kernels", "Share", "占比")
    median_ns: int = field("a call of median time", "Median", "中位数")
    flops: int | None = field("operations of one call; null without a formula that fits", "FLOP", "浮点运算量")
    bytes: int | None = field("least bytes to and from memory of one call", "Bytes", "数据量")
    precision: str = field("type whose rate counts; empty when none does", "Precision", "精度")
    tflops: float | None = field("rate of the median call", "TFLOP/s", "TFLOP/s")
    gb_per_s: float | None = field("rate of the median call", "Bandwidth", "带宽")
    limit: Literal["compute", "memory"] | None = field(
        "the lower of the two roofs at this work: `compute` or `memory`", "Limit", "上限"
    )
    roof_share: float | None = field(
        "least time at the roof by the median call; null without a roof, and where it was undercut",
        "Of the roof",
        "占屋顶线",
    )
    bound: Bound | None = field("`limit` from 80 % of the roof on, else `neither`", "Bound by", "受限于")
    losses: Losses = field("parts of the time that are lost", prefix="")
    aligned: bool | None = field(
        "of a product: whether its inner axes are multiples of the chip's tile", "Aligned", "已对齐"
    )
    note: str = field("what was assumed, or why there is no roof", "Note", "说明")
    busiest: CoreUnit | None = field(
        "`cube`, `vector`, `scalar`, `loading` or `storing`: the unit of the cores that is busy longest; null without "
        "counters",
        "Busiest unit",
        "最忙的单元",
        default=None,
    )
    busiest_share: float | None = field(
        "share of the time in which that unit is busy", "Unit busy", "单元忙碌", default=None
    )
    ai_cpu_ns: int | None = None


@measure("compute.classes", title="Compute by class of operator", zh="按算子类别的计算")
@dataclass(frozen=True, slots=True, kw_only=True)
class KindCost:
    """All operators of one class. `roof_share` is of the time in `roofed_ns`, the time of operators with a roof."""

    kind: str = field(
        "class of operators, such as `matmul`, `attention backward`, `format conversion`; `other` when not known",
        "Class",
        "类别",
        key="class",
    )
    calls: int = field("calls of operators", "Calls", "次数")
    ns: int = field("time of their kernels", "Total", "合计", key="total_ms")
    share: float = field("of the time of all compute kernels, 0 to 1", "Share", "占比")
    flops: int | None = field("operations of the calls that have a formula", "FLOP", "浮点运算量")
    bytes: int | None = field("bytes of the calls that have a formula", "Bytes", "数据量")
    tflops: float | None = field("rate of the calls whose operations are known", "TFLOP/s", "TFLOP/s")
    gb_per_s: float | None = field("rate of the calls whose bytes are known", "Bandwidth", "带宽")
    roofed_ns: int = field("time of the operators that have a roof", "At the roof", "屋顶线时间", of="ns")
    roof_share: float | None = field("least time at the roof by the time taken, of those", "Of the roof", "占屋顶线")
    losses: Losses = field("parts of the time that are lost", prefix="")


@measure(
    "compute.steps",
    title="Compute of each step against its roof",
    zh="各步计算与屋顶线",
    about="Device time of the step's kernels, added up without merging. Parts may overlap.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompute:
    """Compute of one step of one rank: device time of its kernels, added up without merging.

    `mfu` is the time that the step's products, convolutions and attention need at the chip's peak, by the length of the
    window; recomputed work (`recompute_ns`) counts once. `known_share` is the part of the time of such kernels whose
    operations are known: below 1, `mfu` is a lower bound. `over_peers_ns` is the time of the same operators beyond that
    on the median rank; kernels that also communicate are left out, since these kernels wait. `unaligned_ns` is the time
    of products with an axis that is no multiple of the chip's tile. Parts may overlap: a cast may be recomputed.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("step; null for a whole capture", "Step", "步")
    kernel_ns: int = field("all compute kernels that the step launched", "Kernels", "核函数", key="kernels_ms")
    roofed_ns: int = field("those of operators with a roof", "At the roof", "屋顶线时间", of="kernel_ns")
    flops: int | None = field(
        "operations of products, convolutions and attention; null when none is known", "FLOP", "浮点运算量"
    )
    mfu: float | None = field("as in `steps[]`", "MFU", "MFU", kind="share")
    known_share: float | None = field(
        "share of the time of products, convolutions and attention whose operations are known", "Known part", "已知部分"
    )
    losses: Losses = field("parts of the time that are lost", prefix="")
    ai_cpu_ns: int | None = field("kernels on AI CPU (Ascend)", "On the AI CPU", "AI CPU 上", of="kernel_ns")
    cast_ns: int = field("conversions between types", "Casts", "类型转换", of="kernel_ns")
    transpose_ns: int = field("copies that change the order of elements", "Transpositions", "转置", of="kernel_ns")
    conversion_ns: int = field("conversions between storage formats", "Conversions", "格式转换", of="kernel_ns")
    recompute_ns: int | None = field(
        "work done a second time by activation checkpoints; null when the capture cannot tell",
        "Recomputed",
        "重计算",
        of="kernel_ns",
    )
    over_peers_ns: int | None = field(
        "what the same operators took beyond the median rank; null for fewer than three ranks",
        "Over other ranks",
        "多于其他卡",
        of="kernel_ns",
    )
    unaligned_ns: int | None = field(
        "products with an axis that is no multiple of the chip's tile", "Unaligned", "未对齐", of="kernel_ns"
    )
    mhz: float | None = field("mean clock during the kernels", "Clock", "频率")


@measure("compute.chips", title="Chips and what they can do", zh="芯片及其能力")
@dataclass(frozen=True, slots=True, kw_only=True)
class ChipUsed:
    """The chip whose figures were used for some ranks; `chip` and all roofs are None if the chip is not known."""

    ranks: tuple[int, ...] = field("ranks that these figures are used for", "Ranks", "卡")
    recorded: str | None = field("the chip's name as recorded", "Recorded", "已记录")
    chip: str | None = field(
        "the chip it is taken for; null: not known, and then no row of these ranks has a roof", "Chip", "芯片"
    )
    told_by: Literal["name", "counters", "other ranks", "nothing"] = field(
        "`name`, `counters` (cores and clock), `other ranks` of the same name, or `nothing`", "Told by", "依据"
    )
    matrix: Mapping[str, float]
    bandwidth: float | None
    cores: int | None = field("SMs, CUs or cubes", "Cores", "核数")
    mhz: int | None = field("rated clock, where a profiler says the actual one", "Clock", "频率")
    sources: Mapping[str, str]

    def saved_in(self, row: OperatorCost, types: Sequence[str]) -> float:
        """The share of an operator's time saved by the first of `types` that is faster on this chip.

        The operator is assumed to keep its share of the roof, and to move its bytes in any type. If its work is not
        known, at most half of its time is saved: matrix units compute at least twice as fast in the shorter type. The
        result is 0 where the work is known and its roof is not.
        """
        now = self.matrix.get(row.precision, 0.0)
        better = next((name for name in types if self.matrix.get(name, 0.0) > now), None)
        if better is None or not now:
            return 0.0
        if row.flops is None:
            return min(0.5, 1 - now / self.matrix[better])
        if not row.flops or row.roof_share is None:
            return 0.0
        moving = (row.bytes or 0) / self.bandwidth if self.bandwidth else 0.0
        return max(0.0, 1 - max(row.flops / self.matrix[better], moving) / max(row.flops / now, moving))

    @property
    @derived("dense peak of the matrix units by precision", "Peak rates", "峰值算力", keys=("precision", "tflops"))
    def rates(self) -> tuple[tuple[str, float], ...]:
        """Dense peak rates of the chip by precision, in 10^12 operations a second."""
        return tuple((precision, rate / 1e12) for precision, rate in sorted(self.matrix.items()))

    @property
    @derived("peak memory bandwidth, 10^9 bytes a second", "Bandwidth", "带宽", key="gb_per_s")
    def memory_gb_per_s(self) -> float | None:
        """The peak memory bandwidth of the chip in 10^9 bytes a second."""
        return None if self.bandwidth is None else self.bandwidth / 1e9

    @property
    @derived("where the figures come from", "Sources", "来源", key="sources", keys=("figures", "source"))
    def told_sources(self) -> tuple[tuple[str, str], ...]:
        """For each figure of the chip, the source of the figure."""
        return tuple(sorted(self.sources.items()))
