"""Time by role (such as rollout or update) in reinforcement learning, where each role has captures of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.base.intervals import EMPTY, union_of_intervals
from hermes.model.role_measures import RoleTime
from hermes.profiles import messages
from hermes.profiles.measure.structure.roles import RoleOfRank, of_ranges, shared
from hermes.profiles.read.captures_by_role import RoleFolder
from hermes.store.rank_data import RankData


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCapture:
    """The captures of one role in one step."""

    folder: RoleFolder
    ranks: tuple[RankData, ...]

    @property
    def span_ns(self) -> int:
        """The length in ns of the longest capture among the role's ranks."""
        return max((_span(rank) for rank in self.ranks), default=0)


def bounding(captures: Sequence[RoleCapture]) -> RoleFolder:
    """The folder of the task that takes longest, summed over all steps, in its last step."""
    sums: dict[tuple[str, str], int] = {}
    for one in captures:
        task = (one.folder.role, one.folder.task)
        sums[task] = sums.get(task, 0) + one.span_ns
    longest = max(sums, key=lambda task: (sums[task], task))
    return max(one.folder for one in captures if (one.folder.role, one.folder.task) == longest)


def said_of(captures: Sequence[RoleCapture]) -> Diagnostic:
    """A note that names the roles of a job and the role that the report is about."""
    main = bounding(captures)
    tasks = dict.fromkeys(one.folder.task for one in captures)
    return Diagnostic(
        level="info",
        message=messages.roles(tasks=tasks, main=main.task),
        hint=messages.do_choose(capture=captures[0].folder.task),
    )


def role_times(ranges: Iterable[RoleOfRank], captures: Sequence[RoleCapture]) -> tuple[RoleTime, ...]:
    """One row for each task and step: from captures by role if there are any, else from ranges in the captures."""
    return shared(list(_of_captures(captures)) or list(of_ranges(ranges)))


def _of_captures(captures: Sequence[RoleCapture]) -> Iterator[RoleTime]:
    for one in captures:
        spans = {rank.rank: _span(rank) for rank in one.ranks}
        if not spans:
            continue
        longest = max(spans, key=lambda rank: (spans[rank], -rank))
        data = next(rank for rank in one.ranks if rank.rank == longest)
        compute, exposed = _device(data)
        yield RoleTime(
            step=one.folder.step if one.folder.step >= 0 else None, role=one.folder.role, task=one.folder.task,
            source="captures", ranks=tuple(sorted(spans)), wall_ns=spans[longest], wall_rank=longest,
            least_ns=min(spans.values()), device_ns=compute, exposed_comm_ns=exposed, share=0.0, bounds=False,
        )  # fmt: skip


def _span(data: RankData) -> int:
    """Time in ns from the first to the last recorded row of host or device."""
    ends = []
    for table in ("host_op", "kernel"):
        rows = data.table(table, "start_ns", "dur_ns")
        if rows.height:
            last = rows.select((pl.col("start_ns") + pl.col("dur_ns")).max()).item()
            ends.append((int(rows["start_ns"].min()), int(last)))  # type: ignore[arg-type]
    return max(last for _, last in ends) - min(first for first, _ in ends) if ends else 0


def _device(data: RankData) -> tuple[int, int]:
    """Return the device's compute time and its exposed communication time on one rank, in ns."""
    rows = data.table("kernel", "component", "start_ns", "dur_ns")
    comm = data.table("comm_op", "start_ns", "dur_ns")
    sets = []
    for own in (rows.filter(pl.col("component") == "compute"), comm):
        starts = own["start_ns"].to_numpy()
        sets.append(union_of_intervals(starts, starts + own["dur_ns"].to_numpy()) if own.height else EMPTY)
    compute, communication = sets
    return compute.total, (communication - compute).total
