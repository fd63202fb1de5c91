"""Measures of the input pipeline: fetches of batches, rates, queues and copies.

Integer nanoseconds; None is "not measured".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import field, measure


@measure("input.fetches", title="Waits for data", zh="等待数据", about="Over the capture.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Fetches:
    """The fetches of batches by the training loop of one rank, over the capture.

    `kind` is `main process` (the loop itself reads and processes), `workers` (the loop waits for other processes) or
    `not told`. `wait_ns` sums the calls; of `fetches` calls `long` took at least a millisecond: no batch was ready.
    `queue_wait_ns` is the time for which the loop waited at the queue of its workers. `early` counts batches that
    arrived before the batch that was due. `queue_wait_ns` and `early` come from Python frames. `epoch_ns` is the time
    in which `epochs` iterators were made, and the workers of earlier iterators ended; `first_ns` is the time of the
    first fetches after that. `reading_ns` and `processing_ns` are the parts of the main process's calls that frames and
    stacks tell. `device_free_ns` is the part of the calls in which the device had nothing to do.
    """

    rank: int = field("global rank", "Rank", "卡")
    kind: Literal["main process", "workers", "not told"] = field(
        "`main process`, `workers` or `not told`", "Kind", "类别"
    )
    steps: int = field("steps", "Steps", "步数")
    fetches: int = field("calls that fetch a batch", "Fetches", "取数据次数")
    wait_ns: int = field("time in them", "Wait", "等待")
    median_ns: int = field("median call", "Median", "中位数")
    longest_ns: int = field("longest call", "Longest", "最长")
    longest_step: int | None = field("its step", "Step of the longest", "最长所在步")
    long: int = field("calls of a millisecond and more: no batch was ready", "Long ones", "较长次数")
    device_free_ns: int | None = field(
        "part in which the device had nothing to do", "Device free", "设备空闲", of="wait_ns"
    )
    queue_wait_ns: int | None = field(
        "part at the queue of the workers; from Python frames", "Wait at the queue", "队列等待"
    )
    early: int | None = field(
        "batches that came before the one that was due; from Python frames", "Came early", "提前到达"
    )
    epochs: int | None = field("iterators made; from Python frames", "Epochs", "轮数")
    epoch_ns: int | None = field("time in that", "Starting epochs", "启动轮次")
    reading_ns: int | None = field("reading, where the loop reads itself; from Python frames", "Reading", "读取")
    processing_ns: int | None = field("processing, likewise; from frames or stacks", "Processing", "处理")
    first_ns: int | None = None


@measure("input.rates", title="Batches per second, wanted and supplied", zh="每秒批次：需求与供给")
@dataclass(frozen=True, slots=True, kw_only=True)
class InputRates:
    """Batches a second that each stage of one rank's input pipeline can deliver, against the demand of the loop.

    `demand` is the rate at which the loop would take batches if no batch made it wait: one fetch in the median step
    less its fetches. `supply` is the rate of reading and processing: known where the loop does both itself, or waits at
    each fetch. `fetching` is the rate that copies to the device allow. `workers_needed` is the number of processes that
    keep up with the demand, if the time of one batch is known. `cores_free` is the number of idle cores of the host, if
    sampled.
    """

    rank: int = field("global rank", "Rank", "卡")
    demand: float | None = field(
        "batches that the loop would take if it never waited", "Wanted per s", "每秒需求", key="demand_per_s"
    )
    supply: float | None = field(
        "batches that reading and processing give; null where the loop seldom waits",
        "Supplied per s",
        "每秒供给",
        key="supply_per_s",
    )
    fetching: float | None = field(
        "batches that copies to the device allow", "Copied per s", "每秒拷贝", key="copies_per_s"
    )
    workers_needed: int | None = field(
        "processes that keep up with the demand; known where the loop reads itself", "Workers needed", "所需工作进程"
    )
    cores_free: float | None = field("cores to spare, where load was sampled", "Cores free", "空闲核数")
    cores: int | None = field("cores", "Cores", "核数")


@measure("input.queues", title="Queues of the input", zh="输入队列")
@dataclass(frozen=True, slots=True, kw_only=True)
class InputQueue:
    """One queue of the input pipeline, sampled at the moments at which its length was recorded.

    `queue` is `data`, `host` or `device`. `data` holds output of an operation of the pipeline, `host` batches that wait
    for the loop. `device` counts tasks that wait on the device when the loop begins to fetch. `empty` and `full` are
    shares of `samples`.
    """

    rank: int = field("global rank", "Rank", "卡")
    queue: Literal["data", "host", "device"] = field("`data`, `host` or `device`", "Queue", "队列")
    name: str = field("whose output it is", "Name", "名称")
    workers: int | None = field("threads that fill it", "Workers", "工作进程")
    capacity: int | None = field("how much it holds", "Holds", "容量")
    average: float | None = field("mean number in it", "Mean", "平均")
    usage: float | None = field("mean filling, 0 to 1", "Filled", "填充率", kind="share")
    empty: float | None = field("share of samples with nothing in it", "Empty", "空", kind="share")
    full: float | None = field("share of samples in which it was full", "Full", "满", kind="share")
    samples: int | None = field("how often it was looked at", "Samples", "样本数")
    source: str = field("what it was taken from", "Source", "来源")


@measure("input.copies", title="Copies to the device", zh="到设备的拷贝")
@dataclass(frozen=True, slots=True, kw_only=True)
class InputCopies:
    """Copies from the host to the device of one rank, over the capture; `pageable_bytes` if the profiler tells."""

    rank: int = field("global rank", "Rank", "卡")
    copies: int = field("copies from the host", "Copies", "拷贝次数")
    bytes: int | None = field("their size", "Bytes", "数据量")
    time_ns: int = field("their time, added", "Time", "时间", key="ms")
    exposed_ns: int = field("without compute and communication", "Exposed", "未掩盖", of="time_ns")
    pageable_bytes: int | None = field(
        "of it from pageable memory, where the profiler tells", "From pageable memory", "来自可分页内存"
    )
