"""Detects the kind of a job from names in its capture: whether it trains, and its frameworks and libraries."""

from __future__ import annotations

import polars as pl

from hermes.knowledge.job_kinds import FORWARD, FRAMEWORKS, LIBRARIES, OF_GROUPS, TRAINING, TRAINING_KERNELS
from hermes.model.structure_measures import JobSigns
from hermes.profiles.measure.registry import RankTables, per_rank

_MANY_KERNELS = 50
"""The number of kernels beyond which a capture without any gradient kernel shows no training."""


@per_rank(JobSigns, needs={"host_op": ("name",), "kernel": ("name", "type", "component")})
def job_signs_of(rank: RankTables) -> JobSigns:
    """What names in a rank's capture tell about its job: whether it trains, and its libraries."""
    calls = rank.table("host_op")["name"].drop_nulls().unique()
    computed = rank.table("kernel").filter(pl.col("component") == "compute")
    kernels = pl.concat([computed["name"], computed["type"]]).drop_nulls().unique()
    groups = rank.table("group")["name"].drop_nulls().unique()
    return JobSigns(
        rank=rank.rank,
        trains=trains(calls, kernels, computed.height),
        libraries=libraries(calls, kernels, groups),
        frameworks=frameworks(calls, kernels),
    )


def trains(calls: pl.Series, kernels: pl.Series, count: int) -> bool | None:
    """Whether a job trains, by the names of its calls and of its `count` kernels; None if unknown."""
    if _any(calls, TRAINING) or _any(kernels, TRAINING_KERNELS):
        return True
    return False if _any(calls, FORWARD) or count > _MANY_KERNELS else None


def libraries(calls: pl.Series, kernels: pl.Series, groups: pl.Series) -> tuple[str, ...]:
    """The libraries that a job uses, by the names of calls, kernels and groups."""
    found = {name for name, pattern in LIBRARIES.items() if _any(calls, pattern) or _any(kernels, pattern)}
    return tuple(sorted(found | {name for name, pattern in OF_GROUPS.items() if _any(groups, pattern)}))


def frameworks(calls: pl.Series, kernels: pl.Series) -> tuple[str, ...]:
    """The frameworks that a job uses, by the names of calls and kernels."""
    return tuple(name for name, pattern in FRAMEWORKS.items() if _any(calls, pattern) or _any(kernels, pattern))


def _any(names: pl.Series, pattern: str) -> bool:
    return bool(names.str.contains(pattern).any()) if names.len() else False
