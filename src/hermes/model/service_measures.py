"""Measures of an inference service: batches by phase, requests, and pauses between batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import field, measure

Phase = Literal["prefill", "decode", "mixed"]


@measure(
    "compute.batches",
    title="Batches of inference",
    zh="推理批次",
    about="From the ranges that vLLM names by what a batch holds, or from the profiler of a service; sums.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """All batches of one phase (such as prefill or decode) on one rank."""

    rank: int = field("global rank", "Rank", "卡")
    source: Literal["ranges", "service"] = field(
        "`ranges` that a server names, or the profiler of a `service`", "Source", "来源"
    )
    phase: Phase | None = field("`prefill`, `decode`, or `mixed` of both; null: not told", "Phase", "阶段")
    batches: int = field("batches", "Batches", "批次数")
    requests: int | None = field("requests in them, added up", "Requests", "请求数")
    tokens: int | None = field("tokens in them, added up", "Tokens", "词元数")
    host_ns: int = field("time on the host", "On the host", "主机时间")
    median_ns: int = field("of the batch of median time on the host", "Median batch", "中位批次")
    device_ns: int | None = field("time of what they launched, added up", "On the device", "设备时间")
    kernels: int | None = field("kernels and copies", "Kernels", "核函数数")


@measure(
    "compute.requests",
    title="Requests to the service",
    zh="推理服务请求",
    about="As the service's own profiler tells of each; medians, and what one request in a hundred exceeds.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """All requests in one capture of an inference service.

    The time for a further token is the time of a request after its first token, over the number of further tokens. The
    value is None where no request records it.
    """

    rank: int = field("rank that the requests go by", "Rank", "卡")
    requests: int = field("requests", "Requests", "请求数")
    input_tokens: int | None = field("tokens of their prompts, added up", "Prompt tokens", "输入词元")
    output_tokens: int | None = field("tokens of their answers, added up", "Answer tokens", "输出词元")
    span_ns: int | None = field("from the first arrival to the last end", "Span", "时间跨度")
    tokens_per_second: float | None = field("answer tokens over the span", "Tokens/s", "词元/秒")
    took_ns: int | None = field("median request, arrival to end", "Median request", "请求中位数")
    took_99_ns: int | None = field("one in a hundred takes longer", "Slowest 1 %", "请求 P99")
    first_token_ns: int | None = field("median until the first token", "First token", "首词元中位数")
    first_token_99_ns: int | None = field("one in a hundred takes longer", "First token, slowest 1 %", "首词元 P99")
    further_token_ns: int | None = field("median for each further token", "Further token", "后续词元中位数")
    further_token_99_ns: int | None = field(
        "one in a hundred takes longer", "Further token, slowest 1 %", "后续词元 P99"
    )
    queue_ns: int | None = field("median in queues", "Queue", "排队中位数")
    queue_99_ns: int | None = field("one in a hundred takes longer", "Queue, slowest 1 %", "排队 P99")
    queue_share: float | None = field("queues over the time of the requests, added up", "Queue of all", "排队占比")
    transfer_ns: int | None = field(
        "median of the KV cache's way from prefill to decode, on different nodes", "KV cache moved", "KV 传输中位数"
    )


@measure(
    "compute.pauses",
    title="Pauses between batches",
    zh="批次间空隙",
    about="Of each process that runs batches: while a request was under way and none of its batches ran.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPauses:
    """How long one process of a service ran no batch though requests were under way.

    `scheduling_ns` is the part in which a batch was put together. Without requests only pauses between successive
    batches count that are no longer than the longest batch: in a longer pause there may have been no requests.
    """

    rank: int = field("rank that the batches go by", "Rank", "卡")
    server: str = field("whose service: `mindie` or `vllm`; `unknown` where no file tells", "Service", "服务")
    process: str | None = field("the process, as the profiler names it", "Process", "进程", kind="name")
    batches: int = field("batches that it ran", "Batches", "批次数")
    window_ns: int = field("in which requests were under way", "Requests under way", "有请求时间")
    running_ns: int = field("of it, with a batch running", "Running", "执行", of="window_ns")
    idle_ns: int = field("of it, with none", "Pauses", "空隙", of="window_ns")
    scheduling_ns: int = field("of the pauses, a batch was put together", "Put together", "组批", of="window_ns")
