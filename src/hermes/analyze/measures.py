"""The measures that analyses return: frozen rows, integer nanoseconds, None for "not measured"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSplit:
    """One step of one rank, split exactly: `window = compute + exposed comm + exposed copy + free`.

    `window_kind` is `device` (from the first to the last compute or communication task that the step owns, as
    Ascend's tools have it), `host` (the framework's step mark, as PyTorch's ProfilerStep) or `capture` (no step
    was marked). The split is None throughout when the capture holds no device task. `preparing_ns` is the time from
    the host mark to the first device task; `host_ns` the length of the host mark.
    """

    rank: int
    step: int | None
    window_kind: Literal["device", "host", "capture"]
    start_ns: int
    window_ns: int
    compute_ns: int | None
    comm_ns: int | None
    exposed_comm_ns: int | None
    overlapped_comm_ns: int | None
    copy_ns: int | None
    copy_exposed_ns: int | None
    free_ns: int | None
    preparing_ns: int | None
    host_ns: int | None

    @property
    def whole_ns(self) -> int:
        """How long the step takes from the host's view: a window of the device begins only with its first task."""
        return max(self.window_ns, self.host_ns or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendSplit:
    """The step by the definition of Ascend's `step_trace_time`: copies count as free, marks of time are the device's.

    `source` is `computed` (by Hermes from the tasks) or `reported` (by the profiler's own file).
    """

    rank: int
    step: int | None
    source: Literal["computed", "reported"]
    compute_ns: int
    exposed_comm_ns: int
    overlapped_ns: int
    comm_ns: int
    free_ns: int
    stage_ns: int
    bubble_ns: int
    preparing_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTotal:
    """All device rows of one rank's capture, without regard to steps.

    `span` runs from the first start to the last end; `idle = span - busy`; `task_ns` adds durations without merging.
    """

    rank: int
    tasks: int
    span_ns: int
    busy_ns: int
    idle_ns: int
    compute_ns: int
    comm_ns: int
    exposed_comm_ns: int
    copy_ns: int
    copy_exposed_ns: int
    task_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBusy:
    """How long one stream of one rank was busy, by component, over the capture."""

    rank: int
    stream: int | None
    component: str
    tasks: int
    busy_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """One line of a "top" table: rows of one name added up over all ranks and steps that were read.

    `share` is of the total of its table. `detail` is the type of a kernel, the kind of a host call, the operation of
    a collective.
    """

    name: str
    detail: str
    ranks: tuple[int, ...]
    count: int
    total_ns: int
    share: float
    min_ns: int
    median_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWait:
    """How long one rank waited for one other inside communication.

    Either the sum of `Notify_Wait` tasks that name the peer, over all planes; or, with `disjoint`, one wait a
    collective for the last of its members to arrive, and of those that run at once the union: time that passed.
    `longest_at_ns` is the start of the longest wait, or of its collective, the first of equals; `source` says what it
    was taken from.
    """

    rank: int
    peer: int
    peer_collected: bool
    waits: int
    total_ns: int
    longest_ns: int
    longest_at_ns: int
    source: str = "Notify_Wait tasks"
    disjoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpeed:
    """Achieved speed of one transport of one rank: bytes over time of its transfers, 10^9 bytes a second."""

    rank: int
    transport: str
    bytes: int
    time_ns: int
    gb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What calls of one cause cost one rank over the capture.

    `host_ns` is the time in the calls (those inside others once), `idle_ns` the part of it, and of the time from their
    ends to the next device task, in which the device was free: only that can be won back.
    """

    rank: int
    cause: str
    names: tuple[str, ...]
    calls: int
    host_ns: int
    idle_ns: int
    longest_ns: int
    longest_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart:
    """What one component takes of a critical path, for one reason.

    `component` is `compute`, `communication`, `copy`, `wait`, `host`, `launch`, `device gap` or `unexplained`; `reason`
    is what the host did, or whom a wait was for; `rank` is whose time it is.
    """

    rank: int
    component: str
    reason: str
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStretch:
    """One stretch of a critical path: a device task, a launch, or host work between two moments of waiting."""

    rank: int
    component: str
    name: str
    where: str
    start_ns: int
    dur_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRival:
    """Work off a critical path that would take over were the path shortened by more than `slack_ns`.

    All work of one component in one place (`where`: a stream, a group or a thread) whose slack is at most a tenth of
    the window. `ns` is how long it lasts inside the window, in `tasks` pieces; half of it has at most `slack_ns` of
    slack, and none less than `least_ns`.
    """

    component: str
    where: str
    tasks: int
    ns: int
    slack_ns: int
    least_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFree:
    """Why the device of one rank was free in one step; the parts add up to the step's free time.

    A part's component is `host` with what the host did, `launch`, `wait`, or `device gap`; it is work of the device
    (`compute`, …) only where a step's own tasks waited for those of another step. `stretches` are the longest of them,
    in the order of time.
    """

    rank: int
    step: int | None
    free_ns: int
    parts: tuple[PathPart, ...]
    stretches: tuple[PathStretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPath:
    """The critical path through the window of one step of `rank`; its parts add up to `window_ns`, always.

    `across` tells whether it was followed to the ranks that were waited for. `stretches` are in the order of time, on
    the clock of the rank that each belongs to. With `stretch` `preparing` it is the path through the time before the
    window instead, from the host's mark of the step to the first device task. `rivals` is what comes close to the path
    on `rank` itself, the longest first.
    """

    rank: int
    step: int | None
    stretch: Literal["window", "preparing"]
    across: bool
    start_ns: int
    window_ns: int
    parts: tuple[PathPart, ...]
    stretches: tuple[PathStretch, ...]
    rivals: tuple[PathRival, ...]

    @property
    def unexplained_share(self) -> float:
        """The part of the window that the path does not explain."""
        return sum(part.ns for part in self.parts if part.component == "unexplained") / max(self.window_ns, 1)
