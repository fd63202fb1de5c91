"""What rules about threads of operators share: the cores for each, and the operators that are worth several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes.analyze.compute_measures import OperatorCost
from hermes.diagnose.finding import Evidence
from hermes.diagnose.rule import Measures, Threshold
from hermes.diagnose.rules._component import Loss
from hermes.diagnose.rules._compute import longest, operators, shown
from hermes.diagnose.rules._host import has_device, setting

CORES, THREADS = "cpu.cores", "torch.num_threads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threaded:
    """What such operators cost, the longest of them, and the settings of the rank that loses most."""

    found: Loss
    worst: list[OperatorCost]
    evidence: tuple[Evidence, ...]
    cores: int
    threads: int


def cores_per_thread(measures: Measures, rank: int) -> float | None:
    """Cores of the host for each thread of an operator; None with a device, or where one is not recorded."""
    cores, threads = _number(measures, rank, CORES), _number(measures, rank, THREADS)
    return None if has_device(measures, rank) or not cores or not threads else cores / threads


def threaded(
    measures: Measures, what: str, limit: Threshold, worth: Threshold, ranks: Mapping[int, float]
) -> Threaded | None:
    """Operators of these ranks whose median call lasts at least `worth`, if they take more than `limit`."""

    def cost(row: OperatorCost) -> float:
        return float(row.ns) if row.median_ns >= worth.value and ranks.keys() & {*row.ranks} else 0.0

    found = operators(measures, what, limit, cost) if ranks else None
    if found is None or found.worst.rank not in ranks:
        return None
    rank, worst = found.worst.rank, longest(measures, cost)
    return Threaded(
        found=found,
        worst=worst,
        evidence=shown(worst, cost),
        cores=_number(measures, rank, CORES),
        threads=_number(measures, rank, THREADS),
    )


def _number(measures: Measures, rank: int, name: str) -> int:
    value = setting(measures, rank, name)
    return int(value) if value is not None and value.isdecimal() else 0
