"""What is known of running jobs: ranks, step times, splits, alarms, captures, findings."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.base.message import Message, Text
from hermes.jobs.detect.causes import Spent
from hermes.jobs.messages import JobState, bandwidth, rate, rates

_TOLD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """What one kind of collective of one group moved since the job began; `ns` is 0 where nobody timed it."""

    kind: str
    group: str
    calls: int
    size_bytes: int
    ns: int

    @property
    def gb_per_s(self) -> float:
        """Bytes by time, 10^9 a second."""
        return self.size_bytes / self.ns if self.ns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank: its last step, times of its latest steps (ns), rates a second, and mean ns by what was waited for."""

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
    """Of its last step, in deviations above the mean, where the preset `ksigma` looks on."""
    bandwidth: tuple[Bandwidth, ...] = ()
    """Of its collectives, where they are timed."""
    loss: float | None = None
    gradient_norm: float | None = None
    update_ratio: float | None = None
    """Of the last step that was looked at: what the optimizer changed of the parameters, by norm."""
    end_ns: int | None = None
    """When its last step ended, since 1970."""
    own_ns: float | None = None
    """What it does itself in a step: on a CPU, in the run queue, or waiting for data; none of it is another rank's."""
    collective_ns: float | None = None
    """What it is inside calls of collectives in a step."""
    device_ns: float | None = None
    """What a step takes on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job, what was said about it last, and its state.

    `stalled` says of the last since when no step has ended, and where the ranks stand; `alarms` counts those that were
    noticed here, `slow` is whether the last is not over. `captures` counts those on the disk, by how they were asked
    for. `launch` is the number that the launcher gave the job on all its hosts; empty where there is none.
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
