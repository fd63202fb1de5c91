"""Measures of device memory: peaks, growth, recomputation and holders. Integer nanoseconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.model.declare import field, measure


@measure("memory.peaks", title="Peaks of memory", zh="内存峰值")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """The peak bytes of one memory allocator of one rank over the capture.

    `fragmentation` is `1 - allocated/reserved` at the moment of the highest reservation, the first of equals.
    """

    rank: int = field("global rank", "Rank", "卡")
    component: str = field("allocator, as the profiler names it", "Component", "成分")
    device_id: int | None = field("device", "Device", "设备")
    samples: int = field("samples", "Samples", "样本数")
    allocated_bytes: int | None = field("most handed out", "Allocated", "已分配")
    allocated_at_ns: int | None = field("when", "Allocated at", "达到时刻")
    allocated_step: int | None = field("in which step", "Allocated in step", "达到所在步")
    reserved_bytes: int | None = field("most taken from the device", "Reserved", "已预留")
    active_bytes: int | None = field("most in use or waiting for a stream", "Active", "活跃")
    fragmentation: float | None = field(
        "`1 - allocated/reserved` when most was reserved", "Fragmentation", "碎片率", kind="share"
    )


@measure("memory.growth", title="Growth of memory", zh="内存增长")
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """The growth of allocated memory from step to step, compared at the begin of each step.

    The growth is the slope of the least-squares line through `steps` points; `r2` says how well the line fits (1:
    exactly).
    """

    rank: int = field("global rank", "Rank", "卡")
    component: str = field("allocator", "Component", "成分")
    device_id: int | None = field("device", "Device", "设备")
    steps: int = field("steps with a sample", "Steps", "步数")
    bytes_per_step: float = field(
        "slope of the line through what was held where steps begin", "Growth per step", "每步增长"
    )
    r2: float = field("how well the line fits", "R²", "R²")


@measure("memory.recompute", title="Recomputed activations", zh="重计算")
@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """Forward work that the backward pass of a step ran again (activation checkpointing).

    The work is `ops` operators, `host_ns` on the host, and `device_ns` of kernels, of `compute_ns` in all.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    ops: int = field("forward operators in the backward pass", "Operators", "算子数")
    host_ns: int = field("their time on the host", "Host", "主机")
    device_ns: int | None = field("kernels that they launched", "Device", "设备", of="compute_ns")
    compute_ns: int | None = field("all compute of the window", "Compute", "计算")


@measure(
    "memory.holders",
    title="Who holds memory at the peak",
    zh="峰值时的内存占用者",
    about="Of the blocks taken during the capture.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A holder of device memory at the moment at which the blocks taken during the capture were most.

    `module` is the innermost `nn.Module` around the call that took the blocks; None if no module was running or
    recorded.
    """

    rank: int = field("global rank", "Rank", "卡")
    module: str | None = field(
        "innermost module around the call; `(backward)`: the module of its forward operator", "Module", "模块"
    )
    operator: str = field("operator that took them", "Operator", "算子")
    blocks: int = field("how many", "Blocks", "核数")
    bytes: int = field("their size", "Bytes", "数据量")
    share: float = field("of all that was held then", "Share", "占比")
