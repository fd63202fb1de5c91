"""The data that Hermes shows of running jobs: ranks, step times, splits, alarms, captures, findings."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.base.message import Message, Text
from hermes.jobs.detect.causes import Spent
from hermes.jobs.messages import JobState, bandwidth, rate, rates

_TOLD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The transfers of one kind of collective of one group since the job began; `ns` is 0 where they were not timed."""

    kind: str
    group: str
    calls: int
    size_bytes: int
    ns: int

    @property
    def gb_per_s(self) -> float:
        """Bytes by time, in 10^9 bytes a second."""
        return self.size_bytes / self.ns if self.ns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """The view of one rank: its last step, times of its latest steps (ns), rates a second, and mean ns by kind of
    wait."""

    rank: int
    step: int
    walls_ns: tuple[int, ...]
    baseline_ns: int | None
    samples_per_s: float | None
    tokens_per_s: float | None
    mfu: float | None
    split: tuple[tuple[Spent, float], ...]
    memory_bytes: int | None
    score: float | None = None
    """Score of the rank's last step, in deviations above the mean, if the preset `ksigma` is used."""
    bandwidth: tuple[Bandwidth, ...] = ()
    """Bandwidths of the rank's collectives, if they are timed."""
    loss: float | None = None
    gradient_norm: float | None = None
    update_ratio: float | None = None
    """Norm of the optimizer's update over the norm of the parameters, at the last step that was read."""
    end_ns: int | None = None
    """When the rank's last step ended, in ns since 1970."""
    own_ns: float | None = None
    """The rank's own ns in a step: on a CPU, in the run queue, or waiting for data; no other rank causes this time."""
    collective_ns: float | None = None
    """The rank's ns inside calls of collectives in a step."""
    device_ns: float | None = None
    """The ns that a step takes on the device."""
    alive: bool = True
    """Whether the rank's process lives."""
    longest_ns: int | None = None
    """The rank's longest recent step in ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """The view of one job: its state, and its latest messages.

    `stalled` describes the last standstill: since when no step has ended, and where the ranks stand. `alarms` counts
    the alarms that this watcher noticed. `slow` is whether the last alarm still lasts. `captures` counts the captures
    on the disk, by their origin. `launch` is the number that the launcher gave the job on all its hosts; empty where
    there is none.
    """

    id: str
    ranks: tuple[RankView, ...]
    said: tuple[Text, ...]
    state: JobState | None = None
    stalled: Message | None = None
    alarms: int = 0
    slow: bool = False
    captures: tuple[tuple[str, int], ...] = ()
    launch: str = ""
    command: tuple[str, ...] = ()


def bandwidth_lines(job: JobView) -> list[Message]:
    """The collectives that took the most time, each with the slowest and the fastest rank."""
    by_kind: dict[tuple[str, str], list[Bandwidth]] = {}
    for rank in job.ranks:
        for one in rank.bandwidth:
            if one.ns:
                by_kind.setdefault((one.kind, one.group), []).append(one)
    largest = sorted(by_kind.items(), key=lambda pair: -sum(one.ns for one in pair[1]))[:_TOLD]
    lines = []
    for (kind, group), found in largest:
        each = sorted(one.gb_per_s for one in found)
        span = rate(rate=each[0]) if len(each) == 1 else rates(least=each[0], most=each[-1])
        size = sum(one.size_bytes for one in found) // max(sum(one.calls for one in found), 1)
        lines.append(bandwidth(kind=kind, group=group, rates=span, size=size))
    return lines
