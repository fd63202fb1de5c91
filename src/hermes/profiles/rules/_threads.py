"""Cores for each thread of an operator, and operators that can use several threads, for rules about threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.base.units import whole_number
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.finding import Evidence
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, operators, shown
from hermes.profiles.rules._cost_by_rank import Spent
from hermes.profiles.rules._host import has_device, setting

CORES, THREADS = "cpu.cores", "torch.num_threads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threaded:
    """The cost of operators that can use several threads, the longest of them, and the settings of the worst rank."""

    found: Spent
    worst: list[OperatorCost]
    evidence: tuple[Evidence, ...]
    cores: int
    threads: int


def cores_per_thread(job: Job, settings: Rows[SettingValues], rank: int) -> float | None:
    """The host cores for each thread of an operator; None with a device, or if a number is not recorded."""
    cores, threads = _number(settings, rank, CORES), _number(settings, rank, THREADS)
    return None if has_device(job, rank) or not cores or not threads else cores / threads


def threaded(
    job: Job,
    settings: Rows[SettingValues],
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    what: Message,
    limit: Limit,
    worth: Limit,
    ranks: Mapping[int, float],
) -> Threaded | None:
    """Operators of these ranks whose median call lasts at least `worth`, if they take more than `limit`."""

    def cost(row: OperatorCost) -> float:
        return float(row.ns) if row.median_ns >= worth.value and ranks.keys() & {*row.ranks} else 0.0

    found = operators(job, ops, computes, what, limit, cost) if ranks else None
    if found is None or found.worst.rank not in ranks:
        return None
    rank, worst = found.worst.rank, longest(ops, cost)
    return Threaded(
        found=found,
        worst=worst,
        evidence=shown(worst, cost),
        cores=_number(settings, rank, CORES),
        threads=_number(settings, rank, THREADS),
    )


def _number(settings: Rows[SettingValues], rank: int, name: str) -> int:
    return whole_number(setting(settings, rank, name) or "") or 0
