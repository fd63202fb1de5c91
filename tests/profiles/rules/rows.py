"""Short factories for rows of the measures of compute, communication and layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hermes.model.comm_measures import Contention, GroupOp, LatencyFit, LinkPair, Stall
from hermes.model.compute_measures import ChipUsed, Losses, OperatorCost, StepCompute
from hermes.model.finding import Loss
from hermes.model.job import JobMeasures
from hermes.model.step_measures import StepSplit
from hermes.model.structure_measures import Balance, Pipeline, Stage
from hermes.profiles.rules.rule import Finder

NONE = Losses(frequency_ns=None, blocks_ns=None, pipe_ns=None, layout_ns=0)


def only(rule: Finder, measures: JobMeasures) -> Loss:
    (finding,) = rule.find(measures)
    assert finding.code == rule.code
    assert 0 <= finding.gain.low_ns <= finding.gain.high_ns <= finding.cost_ns
    assert 0 < finding.confidence <= 1
    assert finding.actions
    assert finding.evidence
    return finding


def silent(rule: Finder, measures: JobMeasures) -> bool:
    return not list(rule.find(measures))


def step_compute(rank: int = 0, step: int | None = 0, *, kernels: int = 1_000, **parts: Any) -> StepCompute:
    """The compute row of a step; `frequency` is the time lost to the clock rate."""
    frequency = parts.pop("frequency", None)
    values: dict[str, Any] = {
        "flops": None, "mfu": None, "known_share": None, "ai_cpu_ns": None, "cast_ns": 0, "transpose_ns": 0,
        "conversion_ns": 0, "recompute_ns": None, "over_peers_ns": None, "unaligned_ns": None, "mhz": None,
    } | parts  # fmt: skip
    losses = replace(NONE, frequency_ns=frequency)
    return StepCompute(rank=rank, step=step, kernel_ns=kernels, roofed_ns=0, losses=losses, **values)


def operator(name: str, kind: str, ns: int, **given: Any) -> OperatorCost:
    """The row of all calls of one operator; `pipe`, `blocks` and `layout` are its losses."""
    losses = Losses(
        frequency_ns=None,
        blocks_ns=given.pop("blocks", None),
        pipe_ns=given.pop("pipe", None),
        layout_ns=given.pop("layout", ns if kind in ("cast", "transpose", "format conversion") else 0),
    )
    values: dict[str, Any] = {
        "shapes": "8,8;8,8", "dtypes": "BF16;BF16", "chip": "a chip", "ranks": (0,), "calls": 1, "kernels": 1,
        "share": 0.1, "median_ns": ns, "flops": None, "bytes": None, "precision": "bf16", "tflops": None,
        "gb_per_s": None, "limit": None, "roof_share": None, "bound": None, "aligned": None, "note": "",
    } | given  # fmt: skip
    return OperatorCost(operator=name, kind=kind, ns=ns, losses=losses, **values)


CHIP = ChipUsed(
    ranks=(0,), recorded="a chip", chip="a chip", told_by="name",
    matrix={"fp64": 1e12, "fp32": 2e12, "tf32": 16e12, "bf16": 32e12}, bandwidth=1e12, cores=8, mhz=1_800, sources={},
)  # fmt: skip


def computing(*rows: object) -> tuple[object, ...]:
    """These rows of compute, with a step whose kernels take all of the operators' time unless a step is given."""
    if any(isinstance(row, StepCompute) for row in rows):
        return rows
    return (*rows, step_compute(kernels=sum(row.ns for row in rows if isinstance(row, OperatorCost))))


def group_op(op: str = "all_reduce", ranks: Sequence[int] = (0, 1), **given: Any) -> GroupOp:
    """The row of one operation of one group, whose transfers are exposed unless `hidden_ns` says otherwise."""
    values: dict[str, Any] = {
        "group": "dp", "parallel": "dp", "parallel_source": "name", "members": tuple(ranks),
        "members_source": "recorded", "size": len(ranks),
        "library": None, "operations": 1, "rows": len(ranks), "split_rows": len(ranks), "unmatched": 0,
        "elapse_ns": 1_000, "split_elapse_ns": 1_000, "wait_ns": 0, "transfer_ns": 1_000 * len(ranks), "idle_ns": None,
        "hidden_ns": 0, "waste": 0.0, "error_ns": 0, "bytes": 10**9, "transfer_median_ns": 1_000,
        "algorithm_gb_per_s": None, "bus_gb_per_s": None, "transport": "HCCS", "link_gb_per_s": None,
        "link_limit_gb_per_s": None, "of_link": None,
    } | given  # fmt: skip
    return GroupOp(op=op, ranks=tuple(ranks), **values)


def link(rank: int, peer: int, transport: str = "HCCS", **given: Any) -> LinkPair:
    """The row of one rank's transfers over one link."""
    values: dict[str, Any] = {
        "source": "tasks", "transfers": 18, "bytes": 18_000, "time_ns": 1_800, "gb_per_s": 10.0, "of_link": None,
        "ratio": 1.0, "compared": 18, "slower": 0, "excess_ns": 0, "p_value": 1.0, "same_host": True,
    } | given  # fmt: skip
    return LinkPair(rank=rank, peer=peer, transport=transport, **values)


def fit(share: float, total: int, **given: Any) -> LatencyFit:
    """The row of the fixed part of an operation's time."""
    values: dict[str, Any] = {
        "op": "all_reduce", "members": (0, 1), "groups": ("dp",), "operations": 32, "sizes": 3, "fixed_ns": total // 32,
        "peak_bus_gb_per_s": 100.0, "error": 0.0,
    } | given  # fmt: skip
    return LatencyFit(fixed_share=share, fixed_total_ns=total, **values)


def stall(excess: int, rank: int | None = 0, longest: int = 2_000_000) -> Stall:
    """The row of stalled transfers of one rank."""
    return Stall(
        rank=rank, what="ROCE", counted=9, stalled=1, excess_ns=excess, longest_ns=longest, longest_at_ns=7
    )  # fmt: skip


def beside_transfers(slowdown: float, loss: int, kind: Any = "compute") -> Contention:
    """The row of kernels of one shape, beside transfers and alone."""
    return Contention(
        kind=kind, name="MatMul", detail="8,8", beside=9, alone=9, beside_median_ns=round(100 * slowdown),
        alone_median_ns=100, slowdown=slowdown, loss_ns=loss,
    )  # fmt: skip


def pipeline(*computes: int, bubbles: Sequence[int] = (), batches: int | None = 8, window: int = 1_000) -> Pipeline:
    """A pipeline of stages of one rank each, with these times of compute and these bubbles."""
    waits = tuple(bubbles) or (0,) * len(computes)
    mean = sum(computes) / len(computes)
    depth = len(computes)
    return Pipeline(
        source="coordinates",
        stages=tuple(
            Stage(stage=at, ranks=(at,), steps=1, window_ns=window, compute_ns=ns, bubble_ns=waits[at], transfer_ns=0,
                  estimated=False)
            for at, ns in enumerate(computes)
        ),
        micro_batches=batches,
        structural_share=(depth - 1) / (batches + depth - 1) if batches else None,
        bubble_share=sum(waits) / len(waits) / window,
        imbalance=max(computes) / mean - 1,
    )  # fmt: skip


def balance(
    what: Any, over: float, correlation: float | None = 0.99, ranks: Sequence[int] = (0, 1, 2),
    *, late: int | None = None, each: float | None = None,
) -> Balance:  # fmt: skip
    """The tokens of some ranks, of which the first has `over` more than the mean; over all steps it has `each` more."""
    return Balance(
        what=what, group="dp 0", ranks=tuple(ranks), source="shapes", steps=1, mean=100.0, least=90.0,
        least_rank=ranks[-1], most=100.0 * (1 + (over if each is None else each)), most_rank=ranks[0], imbalance=over,
        correlation=correlation, samples=9, late_ns=late,
    )  # fmt: skip


def computed(split: StepSplit, ns: int) -> StepSplit:
    """The split with another compute time; the difference is free time."""
    return replace(split, compute_ns=ns, free_ns=max(0, split.window_ns - ns - (split.exposed_comm_ns or 0)))
