"""Measures of a job's layout: pipeline stages, balance of ranks and experts, and the matrix of ranks and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import NestedTable, field, measure

_STAGES = NestedTable(
    name="stages", title="Pipeline stages", zh="流水线阶段",
    about="Per step, mean over the ranks of a stage. Bubble: waiting for another stage with nothing computed.",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of the pipeline, per step: means over its ranks.

    `bubble_ns` is the time in which a rank waits for another stage and computes nothing. The rank waits in a send, a
    receive or a batch of both, or in a collective that a rank of another stage reaches last. `estimated` means that for
    part of the time the neighbour's arrival is not known: then the time of such an operation beyond the quickest of its
    size counts.
    """

    stage: int = field("from 0", "Stage", "阶段")
    ranks: tuple[int, ...] = field("its ranks that were read", "Ranks", "卡")
    steps: int = field("steps", "Steps", "步数")
    window_ns: int | None = field("window", "Window", "窗口")
    compute_ns: int | None = field("compute", "Compute", "计算", of="window_ns")
    bubble_ns: int = field("waiting for another stage, with nothing computed", "Bubble", "空泡", of="window_ns")
    transfer_ns: int | None = field("sends and receives after the other side arrived", "Transfer", "传输")
    estimated: bool = field("whether the other side's arrival is unknown for some of it", "Estimated", "估计值")


@measure("pipeline", title="Pipeline", zh="流水线", one=True, opened=(_STAGES,))
@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of a pipeline, and the cost of the pipeline's schedule alone.

    `imbalance` is the compute of the slowest stage over the mean, less one. `structural_share` is the bubble's share of
    a step that no schedule of m `micro_batches` over p equal stages avoids: (p - 1) / (m + p - 1). Source: Narayanan et
    al., SC'21, section 2.2.1. Interleaved schedules have smaller bubbles. `bubble_share` is the mean over stages.
    """

    source: Literal["coordinates", "group", "sends and receives"] = field(
        "how stages are known: `coordinates`, `group`, or `sends and receives`", "Source", "来源"
    )
    stages: tuple[Stage, ...] = field("in order")
    micro_batches: int | None = field("by the receives of the last stage", "Micro-batches", "微批数")
    structural_share: float | None = field(
        "bubble that the schedule costs in any case: (p - 1) / (m + p - 1)", "Bubble of the schedule", "调度固有空泡"
    )
    bubble_share: float | None = field("bubble over window, mean of stages", "Bubble", "空泡占比")
    imbalance: float | None = field("compute of the slowest stage over the mean, less one", "Imbalance", "不均衡")


PassKind = Literal["forward", "backward", "optimizer", "compute", "send", "receive", "send and receive"]


@measure(
    "pipeline_passes",
    title="Passes of pipeline stages",
    zh="流水线阶段的前向与反向",
    about="One step, as the chart shows it. Times of a pass are medians over its micro-batches.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class StagePasses:
    """The passes of one rank in one step: their number, their time, and the time without compute.

    A pass is the compute of one micro-batch on one stage. `idle_ns` is the time without compute from the rank's first
    to its last box (pass or transfer). `waited_ns` is how long the rank's sends and receives in that time waited for
    the other side; None if the other side's arrival is not known.
    """

    rank: int = field("global rank", "Rank", "卡")
    stage: int = field("its stage, from 0", "Stage", "阶段")
    step: int = field("step", "Step", "步")
    forwards: int = field("forward passes", "Forward passes", "前向次数")
    forward_ns: int | None = field("a forward pass", "Forward", "前向")
    backwards: int = field("backward passes", "Backward passes", "反向次数")
    backward_ns: int | None = field("a backward pass", "Backward", "反向")
    window_ns: int = field("first to last box", "Window", "窗口")
    idle_ns: int = field("of it, with nothing computed", "Nothing computed", "无计算", of="window_ns")
    waited_ns: int | None = field("waits of sends and receives for the other side", "Waits", "等待")


@measure(
    "pipeline_boxes",
    title="Boxes of the pipeline",
    zh="流水线色块",
    about="What the stages of one pipeline do in one step: passes of micro-batches, sends and receives.",
    most=4_000,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineBox:
    """A box of the pipeline's picture: a pass of a micro-batch on one rank, or a transfer to or from another stage.

    `kind` is `compute` if forward and backward work cannot be told apart. Telling them apart needs calls that autograd
    numbered, or ranges that are named after the passes. `micro_batch` is None where the stages have different numbers
    of passes. `at_ns` is on the clock that all ranks share, `start_ns` on the clock of the rank.
    """

    rank: int = field("global rank", "Rank", "卡")
    stage: int = field("its stage, from 0", "Stage", "阶段")
    step: int = field("step", "Step", "步")
    kind: PassKind = field(
        "`forward`, `backward`, `optimizer`, `compute`, `send`, `receive`, `send and receive`", "Kind", "类型"
    )
    micro_batch: int | None = field("from 0, in the order of the stage", "Micro-batch", "微批")
    at_ns: int = field("begin, since the first box of the step", "At", "时刻")
    dur_ns: int = field("length", "Time", "时间")
    gaps_ns: int | None = field("of a pass: with nothing computed", "Gaps", "间隙", of="dur_ns")
    wait_ns: int | None = field("of a transfer: for the other side", "Wait", "等待", of="dur_ns")
    kernels: int | None = field("of a pass: kernels", "Kernels", "核函数数")
    start_ns: int = field("begin on the clock of its rank", "Start", "开始", kind="moment")


@measure("balance", title="Balance of tokens", zh="词元均衡")
@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """How evenly work is spread over the ranks of a group: tokens of data-parallel ranks, tokens routed to experts.

    Where no tokens are known, the operations of products, convolutions and attention stand for tokens. `imbalance` is
    the median over steps of the largest value over the mean, less one. `correlation` is the correlation of the value
    with the rank's compute time over `samples` pairs of rank and step; None below four pairs, or where one of both does
    not vary. `late_ns` is the most that even work would save; None where no step has the compute of all ranks.
    """

    what: Literal["tokens", "operations", "expert tokens"] = field(
        "`tokens` of batches, `operations` of a step, or `expert tokens`: rows that were routed to a rank's experts",
        "What",
        "内容",
    )
    group: str = field("group whose ranks are compared", "Group", "通信域")
    ranks: tuple[int, ...] = field("ranks with a value", "Ranks", "卡")
    source: str = field("what the values are read from", "Source", "来源")
    steps: int = field("steps", "Steps", "步数")
    mean: float = field("per step", "Mean", "平均")
    least: float = field("rank with the smallest mean", "Least", "最小")
    least_rank: int = field("which", "Rank of the least", "最小所在卡")
    most: float = field("rank with the largest mean", "Most", "最大")
    most_rank: int = field("which", "Rank of the most", "最大所在卡")
    imbalance: float = field("largest over mean less one, median step", "Imbalance", "不均衡", kind="share")
    correlation: float | None = field("with the compute time of the rank's step", "Correlation", "相关")
    samples: int = field("pairs of rank and step that it rests on", "Samples", "样本数")
    late_ns: int | None = field(
        "compute of the rank that computes longest beyond the mean of the ranks, mean step",
        "Longest beyond the mean",
        "最慢卡超出平均",
    )


@measure(
    "balance_operators",
    title="Operators with the most uneven experts",
    zh="专家负载最不均的算子",
    about="Grouped multiplications of single layers, the twenty most uneven.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertOperator:
    """One grouped multiplication of the step: how evenly the router distributes its tokens over the ranks of a group.

    The operator at one place of the step is the same on all ranks of the group; steps in which ranks ran different
    numbers of such operators are left out.
    """

    group: str = field("group whose ranks are compared", "Group", "通信域")
    ranks: tuple[int, ...] = field("ranks with a value", "Ranks", "卡")
    place: int = field("which of the step's grouped multiplications, from 0", "Place in the step", "步内序号")
    name: str = field("operator", "Operator", "算子", kind="name")
    steps: int = field("steps", "Steps", "步数")
    mean: float = field("tokens, mean of ranks and steps", "Mean", "平均")
    least: float = field("rank with the smallest mean", "Least", "最小")
    least_rank: int = field("which", "Rank of the least", "最小所在卡")
    most: float = field("rank with the largest mean", "Most", "最大")
    most_rank: int = field("which", "Rank of the most", "最大所在卡")
    imbalance: float = field("largest over mean less one, median step", "Imbalance", "不均衡", kind="share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The least, median and most value of a metric over some ranks, and the ranks of the extremes."""

    ranks: int = field("ranks that have it", "Ranks", "卡")
    least: float = field("least value", "Least", "最小")
    median: float = field("median", "Median", "中位数")
    most: float = field("greatest value", "Most", "最大")
    least_rank: int = field("who has the least", "Rank of the least", "最小所在卡")
    most_rank: int = field("who has the most", "Rank of the most", "最大所在卡")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A column of the rank matrix: a metric per step, in `ns` or another unit; `spread` is over all its ranks."""

    name: str = field("metric", "Name", "名称")
    unit: str = field("`ms`, `GB/s` or `tokens`", "Unit", "单元")
    spread: Spread = field("over all ranks", prefix="")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A row of the rank matrix: one rank, or a block of consecutive ranks; an unmeasured metric's spread is None."""

    first_rank: int = field("first rank of the row", "First rank", "首卡")
    last_rank: int = field("last rank of the row", "Last rank", "末卡")
    ranks: int = field("how many", "Ranks", "卡")
    cells: tuple[Spread | None, ...] = field("one a metric; null where no rank of the row has it", "Cells", "单元")


@measure("rank_matrix", title="All measures of all ranks", zh="全部卡的全部指标", one=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankMatrix:
    """Every metric of every rank. With too many ranks, each row is a block of ranks, and extremes keep their rank."""

    ranks_per_row: int = field("1 up to 128 ranks, then as many as keep the rows below 129", "Ranks a row", "每行卡数")
    metrics: tuple[Metric, ...] = field("columns", "Metrics", "指标")
    rows: tuple[MatrixRow, ...] = field("ranks, or blocks of them, in order", "Rows", "行")


@measure(
    "host.job_kind",
    title="Kind of job",
    zh="任务类型",
    about="Told by names of calls, kernels, Python files and process groups; it decides which advice fits.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobSigns:
    """What a rank's capture tells of the kind of its job: whether the job trains, and which libraries it uses."""

    rank: int = field("global rank", "Rank", "卡")
    trains: bool | None = field(
        "whether gradients or optimizers were recorded; null where nothing of a model was", "Trains", "是否训练"
    )
    libraries: tuple[str, ...] = field("libraries and wrappers of which a name was recorded", "Libraries", "库")
    frameworks: tuple[str, ...] = field("frameworks of which a name was recorded", "Frameworks", "框架")
