"""Measures of critical paths and of near-critical work, in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hermes.model.declare import field, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart:
    """The time that one component takes of a critical path, for one reason.

    `component` is `compute`, `communication`, `copy`, `wait`, `host`, `launch`, `device gap` or `unexplained`. `reason`
    is what the host did, or the rank that a wait was for. `rank` is the rank whose time it is.
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
class NearCritical:
    """Work off a critical path that would take over if the path became shorter by more than `slack_ns`.

    The work is all work of one component in one place (`where`: a stream, a group or a thread) whose slack is at most a
    tenth of the window. `ns` is how long the work lasts inside the window, in `tasks` pieces; half of the work has at
    most `slack_ns` of slack, and no piece has less than `least_ns`.
    """

    component: str
    where: str
    tasks: int
    ns: int
    slack_ns: int
    least_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPath:
    """The critical path through the window of one step of `rank`; its parts always add up to `window_ns`.

    `across` tells whether the path was followed to the ranks that were waited for. `stretches` are in the order of
    time, on the clock of the rank that each belongs to. `near_critical` is the near-critical
    work on `rank` itself, the longest first.
    """

    rank: int
    step: int | None
    across: bool
    start_ns: int
    window_ns: int
    parts: tuple[PathPart, ...]
    stretches: tuple[PathStretch, ...]
    near_critical: tuple[NearCritical, ...]

    @property
    def unexplained_share(self) -> float:
        """The share of the window that the critical path does not explain."""
        return sum(part.ns for part in self.parts if part.component == "unexplained") / max(self.window_ns, 1)


@measure("critical_path", title="Critical path, by part", zh="关键路径（按部分）")
@dataclass(frozen=True, slots=True, kw_only=True)
class PathShare:
    """A part of one critical path, as a row of a table."""

    rank: int = field("whose step", "Rank", "卡")
    step: int | None = field("which step", "Step", "步")
    across: bool = field("whether it was followed to the ranks that were waited for", "Across ranks", "跨卡")
    of_rank: int = field("whose time it is", "Of rank", "所属卡")
    component: str = field("what took it", "Component", "成分", kind="word")
    reason: str = field("what the host did, or whom a wait was for", "Reason", "原因", kind="word")
    ns: int = field("how long", "Time", "时间")
    share: float = field("of the path", "Share", "占比")


@measure("critical_path_rivals", title="Close to the critical path", zh="接近关键路径")
@dataclass(frozen=True, slots=True, kw_only=True)
class NearPath:
    """Near-critical work of one critical path, as a row of a table."""

    rank: int = field("whose step", "Rank", "卡")
    step: int | None = field("which step", "Step", "步")
    across: bool = field("whether the path was followed to other ranks", "Across ranks", "跨卡")
    component: str = field("what it is", "Component", "成分", kind="word")
    where: str = field("its stream, group or thread", "Where", "位置")
    tasks: int = field("pieces", "Tasks", "任务数")
    ns: int = field("how long they last inside the window", "Time", "时间")
    slack_ns: int = field("slack that half of it has at most", "Slack", "余量")
    least_ns: int = field("least slack", "Least slack", "最小余量", key="least_slack_ms")


@measure("critical_path_stretches", title="Stretches of the critical path", zh="关键路径区段")
@dataclass(frozen=True, slots=True, kw_only=True)
class PathPiece:
    """One of the longest stretches of the first critical path, as a row of a table."""

    of_rank: int = field("whose time it is", "Of rank", "所属卡")
    component: str = field("what took it", "Component", "成分", kind="word")
    name: str = field("task or call", "Name", "名称")
    where: str = field("its stream, group or thread", "Where", "位置")
    start_ns: int = field("on the clock of that rank", "Start", "开始", kind="moment")
    ns: int = field("how long", "Time", "时间")


def path_rows(paths: Sequence[StepPath]) -> Iterator[object]:
    """Table rows of critical paths: all parts, and the stretches of the first path."""
    for path in paths:
        for part in path.parts:
            yield PathShare(
                rank=path.rank, step=path.step, across=path.across, of_rank=part.rank,
                component=part.component, reason=part.reason, ns=part.ns, share=part.ns / path.window_ns,
            )  # fmt: skip
        for row in path.near_critical:
            yield NearPath(
                rank=path.rank, step=path.step, across=path.across, component=row.component, where=row.where,
                tasks=row.tasks, ns=row.ns, slack_ns=row.slack_ns, least_ns=row.least_ns,
            )  # fmt: skip
    for one in paths[0].stretches if paths else ():
        yield PathPiece(
            of_rank=one.rank, component=one.component, name=one.name, where=one.where, start_ns=one.start_ns,
            ns=one.dur_ns,
        )  # fmt: skip
