"""Splits the steps of one rank without the other ranks, for comparisons of runs."""

from __future__ import annotations

from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes.store.rank_data import RankData

_KERNEL = ("rank", "component", "start_ns", "dur_ns", "step", "device_id", "stream", "launch_ns")
_COMM_OP = ("rank", "library", "start_ns", "dur_ns", "step", "stream", "launch_ns")


def splits_of(rank: RankData) -> tuple[StepSplit, ...]:
    """The steps of one rank with their exact split into parts."""
    tables = rank.table("kernel", *_KERNEL), rank.table("comm_op", *_COMM_OP)
    return step_splits(rank.table("step"), *tables, rank.scan("host_op"))
