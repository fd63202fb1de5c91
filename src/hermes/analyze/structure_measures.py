"""Measures of how a job is laid out: stages of its pipeline, load of its ranks, any metric over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of the pipeline, per step: means over its ranks.

    `bubble_ns` is the time in which a rank waits for another stage and computes nothing: in a send, a receive or a
    batch of them, or in a collective that a rank of another stage reaches last. `estimated` tells that the neighbour's
    arrival is not known for some of it: then what such an operation took longer than the quickest of its size counts.
    """

    stage: int
    ranks: tuple[int, ...]
    steps: int
    window_ns: int | None
    compute_ns: int | None
    bubble_ns: int
    transfer_ns: int | None
    estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of a pipeline, and what its schedule alone costs.

    `imbalance` is the compute of the slowest stage over the mean, less one. `structural_share` is the bubble's share of
    the step that a schedule of `micro_batches` over so many equal stages cannot avoid, (p - 1) / (m + p - 1) (Narayanan
    et al., SC'21, section 2.2.1); interleaved schedules have less. `bubble_share` is the mean over stages.
    """

    source: Literal["coordinates", "group", "sends and receives"]
    stages: tuple[Stage, ...]
    micro_batches: int | None
    structural_share: float | None
    bubble_share: float | None
    imbalance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """How evenly work is spread over the ranks of a group: tokens of data-parallel ranks, tokens routed to experts.

    `imbalance` is the median over steps of the largest value over the mean, less one. `correlation` is that of the
    value with the rank's compute time over `samples` pairs of rank and step; None below four, or where one does not
    vary.
    """

    what: Literal["tokens", "expert tokens"]
    group: str
    ranks: tuple[int, ...]
    source: str
    steps: int
    mean: float
    least: float
    least_rank: int
    most: float
    most_rank: int
    imbalance: float
    correlation: float | None
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A metric over some ranks: its least, median and most, and the ranks of the extremes."""

    ranks: int
    least: float
    median: float
    most: float
    least_rank: int
    most_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A column of the rank matrix: per step, `ns` or another unit; `spread` is over all ranks that have it."""

    name: str
    unit: str
    spread: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A rank, or a block of consecutive ranks: for each metric its spread, None where not measured."""

    first_rank: int
    last_rank: int
    ranks: int
    cells: tuple[Spread | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMatrix:
    """Every metric of every rank; beyond a limit rows are blocks of so many ranks, and extremes keep their rank."""

    ranks_per_row: int
    metrics: tuple[Metric, ...]
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Pipeline, balance and matrix of a job; None or empty where it has none."""

    pipeline: Pipeline | None = None
    balances: tuple[Balance, ...] = ()
    matrix: RankMatrix | None = None
