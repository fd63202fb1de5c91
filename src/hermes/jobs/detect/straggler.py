"""Which rank the others wait for, from what each rank did itself in the same steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hermes.jobs.detect.read_step_logs import Steps

_LEAST_STEPS = 20
_MORE = 1.15
_WAITS = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """The rank does `own_ns` of its own in a step, the others `others_ns`, and wait `waited_ns` longer than it does."""

    rank: int
    own_ns: int
    others_ns: int
    waited_ns: int
    steps: int


def own_time(steps: Steps) -> tuple[float, float] | None:
    """What a rank does itself and what it is blocked, nanoseconds a step; None where the system counts neither.

    Own is time on a CPU, in the run queue, or waiting for data: none of it is another rank's doing. The rest is time
    blocked: in a collective, or for a device. A device that computes keeps its host blocked too, so this tells ranks
    apart on hosts; with devices a slow one shows as the rank that is blocked as long as the others.
    """
    if len(steps) < _LEAST_STEPS:
        return None
    cpu, delay = steps.of("cpu_ns"), steps.of("delay_ns")
    if np.isnan(cpu).all() or np.isnan(delay).all():
        return None
    wait = float(np.nansum(steps.of("data_ns"))) - steps.loader_work()
    own = float(np.nansum(cpu) + np.nansum(delay) + wait) / len(steps)
    return own, float(np.sum(steps.of("wall_ns"))) / len(steps) - own


def straggler(ranks: Sequence[Steps]) -> Straggler | None:
    """The rank that the others wait for, over the steps that all ranks have; None when there is none.

    Its own time is 1.15 times the median of the others' and more, and they are blocked longer than it is by a tenth of
    a step and more. Slow alone is not enough: without waiting there is nothing to win from another rank.
    """
    common = _common(ranks)
    times = {steps.rank: found for steps in common if (found := own_time(steps))}
    if len(times) < 2:
        return None
    worst = max(times, key=lambda rank: times[rank][0])
    own, blocked = times[worst]
    others = median(times[rank][0] for rank in times if rank != worst)
    waited = median(times[rank][1] for rank in times if rank != worst) - blocked
    if own < _MORE * others or waited < _WAITS * (own + blocked):
        return None
    return Straggler(
        rank=worst, own_ns=int(own), others_ns=int(others), waited_ns=int(waited), steps=len(common[0])
    )  # fmt: skip


def lasting_straggler(ranks: Sequence[Steps]) -> tuple[Straggler | None, int]:
    """The straggler of all steps, else of the latest part of them; and the step from which on it is one, 0 for all.

    A rank that becomes slow half way is averaged away over the whole: so each half is asked for one by itself.
    """
    if found := straggler(ranks):
        return found, 0
    common = _common(ranks)
    count = min(map(len, common), default=0)
    while count >= 4 * _LEAST_STEPS:
        count //= 2
        common = [steps.part(len(steps) - count, len(steps)) for steps in common]
        if found := straggler(common):
            return found, int(common[0].columns["step"][0])
    return None, 0


def _common(ranks: Sequence[Steps]) -> list[Steps]:
    """The stretch of steps that every rank has, cut to whole records at both ends."""
    full = [steps for steps in ranks if len(steps)]
    if len(full) < 2:
        return []
    first = max(int(steps.columns["step"][0]) for steps in full)
    last = min(int(steps.columns["step"][-1]) for steps in full)
    cut = []
    for steps in full:
        inside = np.flatnonzero((steps.columns["step"] >= first) & (steps.columns["step"] <= last))
        if len(inside) < _LEAST_STEPS:
            return []
        cut.append(steps.part(int(inside[0]), int(inside[-1]) + 1))
    return cut
