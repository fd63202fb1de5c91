"""What a rule says: a finding with its evidence, cost, gain as a range, confidence and cure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from hermes.model.measures import StepSplit

Layer = Literal["io", "cpu", "compute", "communication", "memory", "parallelism", "environment"]


State = Literal["preview", "stable"]
"""What a rule has earned: `stable` ones make the verdict and the plan, `preview` ones stand apart."""


class Cause(str, Enum):
    """What time is lost to, in English; `zh` is the same in Chinese.

    `OF_RULE` stands for the cause that a rule declares.
    """

    zh: str

    def __new__(cls, text: str, zh: str) -> Cause:
        """A cause is the word that reports show."""
        made = str.__new__(cls, text)
        made._value_ = text
        made.zh = zh
        return made

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)

    OF_RULE = "", ""
    UNPACKING = "unpacking of 8-bit numbers", "8 位数的解包"
    CACHING_ALLOCATOR_OFF = "caching allocator off", "缓存分配器关闭"
    SMALL_COLLECTIVES = "small collectives", "小集合通信"
    STRIDED_COPIES = "transpositions and strided copies", "转置与跨步拷贝"
    SLOW_TYPE = "slow type", "慢数据类型"
    CHECKS_FOR_DEBUGGING = "checks for debugging", "调试检查"
    UNEVEN_ENVIRONMENT = "ranks differ in their environment", "各 rank 环境不一致"
    COMPILATION = "operator compilation", "算子编译"
    COMPILATION_OF_NEW_SHAPES = "operator compilation of new shapes", "新形状引起的算子编译"
    MEMORY_BOUND_KERNELS = "memory-bound kernels", "访存受限的核函数"
    MATRIX_UNITS_UNDERUSED = "matrix units underused", "矩阵单元利用不足"
    DENSE_TABLE_GRADIENTS = "dense gradients of a table", "嵌入表的稠密梯度"
    BATCHES_OF_MANY_TENSORS = "batches of many tensors", "批次含大量张量"
    NO_CORE_FOR_WORKERS = "workers too slow, cores full", "取数进程慢且核已占满"
    TOO_FEW_WORKERS = "too few workers", "取数进程过少"
    TENSORS_IN_FILES = "tensors in files", "张量经文件读写"
    CHECKPOINT_OR_LOGGING = "checkpoint or logging", "保存检查点或日志"
    DETAILED_LOGS = "detailed logs", "日志过细"
    UNEVEN_BATCHES = "uneven batches", "批次不均"
    STALLED_TRANSFERS = "stalled transfers", "传输停顿"
    SLOW_COLLECTIVES = "slow collectives", "集合通信慢"
    CONTENTION = "contention", "资源争用"
    SMALL_OPERATORS = "small operators", "小算子"
    UNEVEN_STAGES = "uneven stages", "流水级不均"
    UNEVEN_EXPERTS = "uneven experts", "专家负载不均"
    SLOW_LINK = "slow link", "慢链路"
    IDLE_CORES = "idle cores", "计算核空闲"
    REDUCTION_PER_MICRO_BATCH = "reductions of micro-batches", "每个微批都归约梯度"
    WRONG_TRANSPORT = "wrong transport", "传输通道错误"
    THREADS_STARTED_ANEW = "threads or processes started anew", "反复启动线程或进程"
    THREAD_BESIDE = "another thread that runs Python", "另一线程占用解释器"
    CONCAT_GROWTH = "tensors grown by concatenation", "拼接增长的张量"
    OUT_OF_MEMORY = "out of memory", "内存不足"
    GROWING_MEMORY = "memory that grows", "内存持续增长"
    GARBAGE_COLLECTION = "garbage collection", "垃圾回收"
    FRESH_MEMORY = "fresh memory", "新分配内存的缺页"
    UNALIGNED_SIZES = "unaligned sizes", "通信大小未对齐"
    PADDING = "padding", "填充"
    LOW_CLOCK = "low clock", "频率过低"
    CASTS_OF_WIDE_BATCHES = "casts of wide batches", "宽类型批次的转换"
    CASTS = "casts", "类型转换"
    UNFUSED_LAYERS = "unfused layers", "未融合的层"
    MORE_THREADS_THAN_CORES = "more threads than cores", "线程多于核"
    FEWER_THREADS_THAN_CORES = "fewer threads than cores", "线程少于核"
    UNALIGNED_SHAPES = "unaligned shapes", "形状未对齐"
    SHORT_KERNELS = "kernels shorter than their launch", "核函数短于下发"
    DISPATCH = "dispatch", "算子下发"
    COMPUTING_ON_HOST = "computing on the host", "在主机上计算"
    UNFUSED_OPTIMIZER = "unfused optimizer", "优化器未融合"
    TASK_QUEUE_OFF = "task queue off", "任务队列关闭"
    SYNCHRONISING_CALL = "synchronising call", "同步调用"
    PIPELINE_BUBBLE = "pipeline bubble", "流水气泡"
    ROWS_BY_INDEX = "rows by index", "按索引读写行"
    LISTS_TO_TENSORS = "lists made into tensors", "列表转张量"
    TOO_FEW_MICRO_BATCHES = "too few micro-batches", "微批过少"
    CORES_FULL = "cores full", "核已占满"
    EXPENSIVE_PROFILING = "expensive profiling", "采集开销"
    DATA_LOADING = "data loading in the training process", "训练进程内加载数据"
    DATA_READING = "data reading in the training process", "训练进程内读数据"
    DATA_PROCESSING = "data processing in the training process", "训练进程内处理数据"
    UNRECORDED_HOST_TIME = "host time that was not recorded", "未记录的主机时间"
    COPIES_FROM_PAGEABLE_MEMORY = "copies from pageable memory", "可分页内存拷贝"
    EXPOSED_INPUT_COPIES = "copies of batches that nothing hides", "未被掩盖的批次拷贝"
    WORKERS_STARTED_ANEW = "workers started anew", "反复启动取数进程"
    SLOW_DEVICE = "slow device", "慢设备"
    EXPLICIT_SYNCHRONISATION = "explicit synchronisation", "显式同步"
    CHECKS_OF_NUMBERS = "checks of numbers", "数值检查"
    AI_CPU_OPERATORS = "AI CPU operators", "AI CPU 算子"
    FORMAT_CONVERSIONS = "format conversions", "格式转换"
    FRAGMENTATION = "fragmentation", "内存碎片"
    EXPOSED_COPIES = "exposed copies", "未被掩盖的拷贝"
    ALLOCATOR_CALLS = "allocator calls", "分配器调用"
    SLOW_SAMPLE = "a slow sample holds others back", "慢样本拖住其他样本"
    RECOMPUTATION = "recomputation", "重计算"
    LAUNCH_BLOCKING = "launch blocking", "下发阻塞"
    STARVED_DEVICE = "device starved by the host", "设备等待主机"
    STRAGGLER = "straggler", "慢 rank"
    FIRST_CALLS = "first calls of the program", "程序的首次调用"
    HOT_FUNCTION = "a function of the program", "程序自身的函数"
    MADE_ANEW = "tensors made anew in each step", "每步重新构造同样的张量"
    FORWARD_UNLEARNED = "forward passes that train nothing", "不参与训练的前向"
    UNUSED_GRADIENTS = "gradients that no optimizer uses", "没有优化器使用的梯度"
    BACKWARD_AGAIN = "backward passes over the same graph", "对同一张图多次反向"
    COSTLY_FORM = "a costly form of a computation", "代价高的写法"
    ALL_DIFFERENCES = "distances of all pairs by their differences", "用全部差值计算两两距离"
    ONE_HOT_PRODUCTS = "one-hot vectors times a matrix", "one-hot 向量乘矩阵"
    DECOMPOSITIONS = "decompositions of matrices", "矩阵分解"
    WHOLE_SORTS = "whole sorts", "完整排序"
    GRADIENTS_OF_PIECES = "gradients of pieces of a tensor", "张量各部分的梯度"
    UNFOLDED_WINDOWS = "windows laid out as columns", "把窗口展开为列"
    LONG_STEPS = "steps that are longer at an even distance", "按固定间隔变长的步"
    DECODED_ANEW = "a sequence computed anew for each element", "每个元素都重新计算整个序列"
    EXPOSED_COMMUNICATION = "exposed communication", "未被掩盖的通信"


BlameKind = Literal[
    "rank", "stage", "link", "operation", "operator", "shape", "call", "line", "setting", "allocator", "copy"
]


class Blame(str):
    """Who or what is to blame: the text that reports show, what it names, and the rank that it is or lies on."""

    kind: BlameKind
    rank: int | None

    def __new__(cls, text: str, kind: BlameKind = "call", rank: int | None = None) -> Blame:
        """A blame is the text that reports show."""
        made = str.__new__(cls, text)
        made.kind, made.rank = kind, rank
        return made

    @classmethod
    def of_rank(cls, rank: int) -> Blame:
        """A whole rank, whether it was collected or not."""
        return cls(f"rank {rank}", "rank", rank)

    @property
    def is_rank(self) -> bool:
        """Whether it is a rank as such, and nothing on it."""
        return self.kind == "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A stretch of time of one rank, on its own clock. `whole` is that of a whole step, else of one event in it."""

    rank: int
    start_ns: int
    dur_ns: int
    whole: bool = False


def step_moment(split: StepSplit) -> Moment:
    """The window of a step."""
    return Moment(rank=split.rank, start_ns=split.start_ns, dur_ns=split.window_ns, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number behind a finding, against its threshold, and where it stands in the input.

    `at` is where to look, if it is one moment.
    """

    what: str
    value: float
    unit: str
    threshold: float | None
    where: str
    at: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do, how to see that it helped, what it risks, and where the advice comes from.

    `whole`: it says all of the change, so that none of a known case is put beside it.
    """

    title: str
    do: str
    verify: str
    risk: str
    source: str
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What removing the cause would give, in nanoseconds per step, as a range; `method` says how it was reckoned.

    `replayed`: `low_ns` is what a replay of the step gave; without it there is only the bound `high_ns`.
    `before`: reckoned from steps before the capture, which no profiler lengthened. `middle_ns` is the replay itself,
    where the range around it is that of what cures of its kind gave.
    """

    low_ns: int
    high_ns: int
    method: str
    replayed: bool = False
    before: bool = False
    middle_ns: int | None = None

    @property
    def expected_ns(self) -> int:
        """The replay, or the middle of the range from nothing to the bound."""
        if self.middle_ns is not None:
            return self.middle_ns
        return self.low_ns if self.replayed else (self.low_ns + self.high_ns) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause of lost time. `cost_ns` is per step (median over steps, worst rank), `share` of the step window.

    `blames` names ranks (also ranks that were not collected), links, source lines, operators, settings. `code`,
    `layer`, `state`, `within` and, if it is not given, `cause` come from the rule. `replay` holds the changes that
    stand for its cure where steps are replayed, such as `rank:5=median`; without any, the gain stays a bound. `within`
    is the code of a broader finding of which this is a part: the part says more, and comes first; a rule says `apart`
    where that one does not hold its time. `explained_by` are the codes of the parts of this one that were found: `gain`
    is then what is left beyond them. `moments` are where it shows, at most one of each rank, best first. `endangers`:
    it ends the job in time, whatever it costs a step. `by_chance`: what steps differ anyway may have made it, so it is
    told as noise whatever it costs. `direct`: what it counts is the mistake itself, named in the capture, with no model
    or limit between the two. `lines` are lines of the user's code from which its time comes,
    most first.
    """

    title: str
    ranks: tuple[int, ...]
    blames: tuple[Blame, ...]
    cost_ns: int
    share: float
    gain: Gain
    confidence: float
    evidence: tuple[Evidence, ...]
    actions: tuple[Action, ...]
    code: str = ""
    layer: Layer = "compute"
    cause: Cause = Cause.OF_RULE
    state: State = "stable"
    replay: tuple[str, ...] = ()
    within: str = ""
    apart: bool = False
    explained_by: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    endangers: bool = False
    by_chance: bool = False
    direct: bool = False
    lines: tuple[str, ...] = ()

    @property
    def at(self) -> Moment | None:
        """The moment that shows it best."""
        return self.moments[0] if self.moments else None
