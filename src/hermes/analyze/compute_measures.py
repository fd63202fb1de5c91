"""What compute costs and could cost: rows by operator signature, by class, by step, and the chips behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Bound = Literal["compute", "memory", "neither"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Parts of compute time that are lost, each of what the ones before it leave; None where nothing tells it.

    `frequency_ns`: the clock was below its rated one. `blocks_ns`: cores had no block to work on. `pipe_ns`: no pipe of
    the core was busy for 80 % of the time. `layout_ns` is no part of them: the time of casts, transpositions and format
    conversions as a whole, which compute nothing.
    """

    frequency_ns: int | None
    blocks_ns: int | None
    pipe_ns: int | None
    layout_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """All calls of one operator with the same shapes and types, on one kind of chip, over all ranks and steps.

    `calls` are calls of the framework's operator (kernels where they have their own shapes), `ns` the time of all their
    kernels. `flops` and `bytes` are of one call, None without a formula. `tflops`, `gb_per_s`, `roof_share` and
    `bound` are those of the call of median time. `limit` is the lower of the chip's two roofs at this work;
    `roof_share` is never above 1: `note` says what is known instead. `aligned` tells of products whether the inner axes
    of both matrices are multiples of what the chip works on. `ai_cpu_ns` is the part of `ns` on AI CPU, None where
    units are not recorded.
    """

    kind: str
    operator: str
    shapes: str
    dtypes: str
    chip: str | None
    ranks: tuple[int, ...]
    calls: int
    kernels: int
    ns: int
    share: float
    median_ns: int
    flops: int | None
    bytes: int | None
    precision: str
    tflops: float | None
    gb_per_s: float | None
    limit: Literal["compute", "memory"] | None
    roof_share: float | None
    bound: Bound | None
    losses: Losses
    aligned: bool | None
    note: str
    ai_cpu_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCost:
    """All operators of one class. `roof_share` is that of the time in `roofed_ns`: the operators with a roof."""

    kind: str
    calls: int
    ns: int
    share: float
    flops: int | None
    bytes: int | None
    tflops: float | None
    gb_per_s: float | None
    roofed_ns: int
    roof_share: float | None
    losses: Losses


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompute:
    """Compute of one step of one rank: device time of its kernels, added up without merging.

    `mfu` is the time that the step's products, convolutions and attention need at the chip's peak, by the length of the
    window; work that is done twice (`recompute_ns`) counts once. `known_share` is the part of the time of such kernels
    whose operations are known: below 1, MFU is at least what it says. `over_peers_ns` is what the same operators took
    beyond the median rank, `unaligned_ns` the time of products with an axis that is no multiple of the chip's tile.
    Parts may overlap: a cast may be recomputed.
    """

    rank: int
    step: int | None
    kernel_ns: int
    roofed_ns: int
    flops: int | None
    mfu: float | None
    known_share: float | None
    losses: Losses
    ai_cpu_ns: int | None
    cast_ns: int
    transpose_ns: int
    conversion_ns: int
    recompute_ns: int | None
    over_peers_ns: int | None
    unaligned_ns: int | None
    mhz: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipUsed:
    """The chip whose figures were used for some ranks; `chip` is None when it is not known, and so is every roof."""

    ranks: tuple[int, ...]
    recorded: str | None
    chip: str | None
    told_by: Literal["name", "counters", "other ranks", "nothing"]
    matrix: Mapping[str, float]
    bandwidth: float | None
    cores: int | None
    mhz: int | None
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """The compute part of a report; `operators` are sorted by time, the longest first."""

    chips: tuple[ChipUsed, ...]
    steps: tuple[StepCompute, ...]
    kinds: tuple[KindCost, ...]
    operators: tuple[OperatorCost, ...]


NO_COMPUTE = Compute(chips=(), steps=(), kinds=(), operators=())
