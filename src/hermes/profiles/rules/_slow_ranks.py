"""Finds the ranks that compute slower or longer than their peers, so that several rules agree on these ranks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from hermes.model.compute_measures import StepCompute
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.measure.communication.fused_kernels import FusedOperator
from hermes.profiles.rules._cost_by_rank import steps_of, typical
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import by_share

SLOWER = Limit(
    value=0.03, unit="of the time of its kernels", source="cases CMP-14 and COM-21; priority `medium` of msprof-analyze"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A rank that takes longer for the same operators than the median rank; `lost_ns` is per step."""

    rank: int
    split: StepSplit
    lost_ns: int
    kernel_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A rank's typical step compared with the median of its peers: additional compute and free time per step.

    The peers of a rank are the ranks of its pipeline stage, else all other ranks; `peers` is their number.
    """

    rank: int
    peers: int
    compute_ns: int
    free_ns: int


def slow_by_compute(job: Job, computes: Rows[StepCompute]) -> list[Slow]:
    """The ranks whose operators take longer than equal operators on the median rank, the slowest first."""
    rows = {(row.rank, row.step): row for row in computes}
    found = []
    for split in typical(job):
        row = rows.get((split.rank, split.step))
        if row is None or row.over_peers_ns is None or not row.kernel_ns:
            continue
        lost = row.over_peers_ns
        if by_share(SLOWER, lost / row.kernel_ns) and by_share(NOISE, lost / split.window_ns):
            found.append(Slow(rank=split.rank, split=split, lost_ns=lost, kernel_ns=row.kernel_ns))
    return sorted(found, key=lambda one: (-one.lost_ns, one.rank))


def beside(job: Job, pipelines: Rows[Pipeline], rank: int, fused: Rows[FusedOperator]) -> Beside | None:
    """A rank compared with its peers; None if it was not captured, or has no peers.

    Waits for other ranks inside `fused` kernels appear as compute, and are not counted as compute.
    """
    splits = {split.rank: split for split in typical(job)}
    if rank not in splits:
        return None
    line = pipelines.only
    stages = line.stages if line else ()
    mates = next((set(stage.ranks) for stage in stages if rank in stage.ranks), set(splits)) - {rank}
    others = [splits[mate] for mate in sorted(mates & splits.keys())]
    if not others:
        return None
    own, waits = splits[rank], _waits_inside(job, fused)
    computes = {split.rank: (split.compute_ns or 0) - waits.get(split.rank, 0) for split in (own, *others)}
    return Beside(
        rank=rank,
        peers=len(others),
        compute_ns=round(computes[rank] - median(computes[other.rank] for other in others)),
        free_ns=round((own.free_ns or 0) - median(other.free_ns or 0 for other in others)),
    )


def _waits_inside(job: Job, fused: Rows[FusedOperator]) -> dict[int, int]:
    """The least time per step that each rank waits for others inside fused kernels."""
    sums: dict[int, int] = {}
    for one in fused:
        sums[one.rank] = sums.get(one.rank, 0) + one.wait_low_ns
    return {rank: ns // steps_of(job, (rank,)) for rank, ns in sums.items()}
