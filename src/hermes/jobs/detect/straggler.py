"""Finds the rank that the others wait for: the rank with the most time of its own, in the same steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hermes.base.message import Message
from hermes.jobs.detect.messages import UNTOLD_DEVICE
from hermes.jobs.detect.messages import untold as say_untold
from hermes.jobs.detect.ranksum import Floats
from hermes.jobs.detect.read_step_logs import Steps

_LEAST_STEPS = 20
_MORE = 1.10
_WAITS = 0.05
_SURE = 4.0
_STRETCH = 5
_BLOCKED = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A straggler: it works `own_ns` itself in a step, the others `others_ns`, and they wait `waited_ns` longer than
    it."""

    rank: int
    own_ns: int
    others_ns: int
    waited_ns: int
    steps: int


def own_times(steps: Steps) -> Floats | None:
    """The ns that a rank works itself in each step: all time outside collectives, as in the time tree.

    NaN for steps whose collectives were not timed; None where no step's were. Then the log cannot say who waits for
    whom: a rank that sleeps or reads is as idle as a rank that waits. On a device the host does not wait for
    collectives: no time of the host shows the wait.
    """
    if len(steps) < _LEAST_STEPS or steps.about.get("device"):
        return None
    comm = steps.of("comm_ns")
    return None if np.isnan(comm).all() else np.maximum(steps.of("wall_ns") - comm, 0.0)


def own_time(steps: Steps) -> float | None:
    """The mean of `own_times`; None where it is not known."""
    own = own_times(steps)
    return None if own is None else float(np.nanmean(own))


def straggler(ranks: Sequence[Steps]) -> Straggler | None:
    """The rank that the others wait for, over the steps that all ranks have; None when there is none.

    The straggler's own time must be 1.1 times the median of the others or more. The others must wait a twentieth of a
    step longer than the straggler: a slow rank for which nobody waits costs nothing. The difference must exceed four
    standard errors of its mean over stretches of steps. Ranks that are late in turn are then not named by chance.
    """
    common = _common(ranks)
    times = {steps.rank: own for steps in common if (own := own_times(steps)) is not None}
    if len(times) < 2:
        return None
    table = np.vstack(list(times.values()))
    table = table[:, ~np.isnan(table).any(axis=0)]
    if table.shape[1] < _LEAST_STEPS:
        return None
    means = table.mean(axis=1)
    place = int(means.argmax())
    others = np.delete(means, place)
    usual = float(median(others))
    wall = float(np.mean([steps.of("wall_ns").mean() for steps in common]))
    more = float(means[place]) - usual
    if means[place] < _MORE * usual or more < _WAITS * wall or not _lasts(table, place):
        return None
    return Straggler(
        rank=list(times)[place], own_ns=int(means[place]), others_ns=int(usual), waited_ns=int(more),
        steps=table.shape[1],
    )  # fmt: skip


def _lasts(table: np.ndarray[tuple[int, int], np.dtype[np.float64]], place: int) -> bool:
    """Whether the rank is later than the others throughout, and not in a few steps by chance.

    Stretches of five steps are compared, since a disturbance of a host lasts for some steps.
    """
    count = table.shape[1] // _STRETCH
    stretches = table[:, table.shape[1] - count * _STRETCH :].reshape(len(table), count, _STRETCH).mean(axis=2)
    more = stretches[place] - np.delete(stretches, place, axis=0).mean(axis=0)
    return bool(more.mean() >= _SURE * float(more.std(ddof=1)) / count**0.5)


def untold(ranks: Sequence[Steps]) -> Message | None:
    """Why the awaited rank is unknown, and what to do; None where it can be found, or the ranks hardly wait."""
    common = _common(ranks)
    if len(common) < 2:
        return None
    if any(steps.about.get("device") for steps in common):
        return UNTOLD_DEVICE
    if any(own_times(steps) is not None for steps in common):
        return None
    blocked = [share for steps in common if (share := _blocked(steps)) is not None]
    share = median(blocked) if blocked else 0.0
    return say_untold(share=share) if share >= _BLOCKED else None


def _blocked(steps: Steps) -> float | None:
    """The share of its time in which the stepping thread is neither computing nor waiting for a core or for data."""
    cpu, delay = steps.of("cpu_ns"), steps.of("delay_ns")
    if np.isnan(cpu).all() or np.isnan(delay).all():
        return None
    busy = float(np.nansum(cpu) + np.nansum(delay) + np.nansum(steps.of("data_ns"))) - steps.loader_work()
    return 1 - busy / max(float(np.sum(steps.of("wall_ns"))), 1.0)


def lasting_straggler(ranks: Sequence[Steps]) -> tuple[Straggler | None, int]:
    """The straggler of all steps, else of their latest part; and the step from which on it is one, 0 for all steps.

    The mean over all steps hides a rank that becomes slower late: so shorter and shorter last parts are examined.
    """
    common = _common(ranks)
    count = min(map(len, common), default=0)
    while count >= _LEAST_STEPS:
        part = [steps.part(len(steps) - count, len(steps)) for steps in common]
        if found := straggler(part):
            begin = _begin(common, found.rank)
            return straggler([steps.part(begin, len(steps)) for steps in common]) or found, _number(common, begin)
        count //= 2
    return None, 0


def _begin(common: Sequence[Steps], rank: int) -> int:
    """The step index where the rank's lead over the others changes most, if the rank hardly had one before; else 0."""
    table = np.vstack([steps.of("wall_ns") - steps.of("comm_ns") for steps in common])
    place = [steps.rank for steps in common].index(rank)
    more = np.nan_to_num(table[place] - np.median(np.delete(table, place, axis=0), axis=0))
    begin = int(np.cumsum(more - more.mean()).argmin()) + 1
    rest = len(more) - begin
    if begin < _LEAST_STEPS or rest < _LEAST_STEPS or more[:begin].mean() > more[begin:].mean() / 2:
        return 0
    return begin


def _number(common: Sequence[Steps], begin: int) -> int:
    return int(common[0].columns["step"][begin]) if begin else 0


def _common(ranks: Sequence[Steps]) -> list[Steps]:
    """The steps that every rank has, except steps that a capture lengthens and each rank's first step."""
    full = [_usual(steps) for steps in ranks if len(steps)]
    if len(full) < 2:
        return []
    shared = full[0].columns["step"]
    for steps in full[1:]:
        shared = np.intersect1d(shared, steps.columns["step"])
    if len(shared) < _LEAST_STEPS:
        return []
    return [_at(steps, np.searchsorted(steps.columns["step"], shared)) for steps in full]


def _usual(steps: Steps) -> Steps:
    """The rank's steps since its step numbers last restarted, without steps that a profiler or the start made
    longer."""
    numbers = steps.columns["step"]
    back = np.flatnonzero(np.diff(numbers) <= 0)
    begin = int(back[-1]) + 1 if len(back) else 0
    return _at(steps, np.flatnonzero(~steps.flagged("first", "profiled", "foreign_profiler")[begin:]) + begin)


def _at(steps: Steps, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Steps:
    return Steps(rank=steps.rank, columns={name: column[rows] for name, column in steps.columns.items()},
                 about=steps.about)  # fmt: skip
