"""Builds the event graph of a job's step for replay, with names of tasks and reasons of host work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hermes.base.intervals import Ints, union_of_intervals
from hermes.knowledge.host_work import OUTSIDE, REASONS
from hermes.profiles.measure.path.build_event_graph import joined
from hermes.profiles.measure.path.event_graph import MET, WORK, WORKED, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.rank_nodes import RankPart
from hermes.profiles.measure.path.step_path import RankRows, host_reasons


@dataclass(frozen=True, kw_only=True)
class JobStep:
    """One step of all ranks that were read.

    By node: `component` (`compute`, `comm`, `copy`, … or empty), `name` and `type` of its task, and the `bytes` of a
    transfer, -1 if unknown. By edge: `reason` holds, for the edges of host work, nanoseconds by reason, in the order of
    `REASONS`; zero for all other edges.

    `begin_ns` is the begin of the step on the common clock. If the events hold the step before with all its work, it is
    the end of that step; else it is the host's begin of the step.
    """

    graph: EventGraph
    component: np.ndarray
    name: np.ndarray
    type: np.ndarray
    bytes: Ints
    reason: np.ndarray
    begin_ns: int

    @property
    def end_ns(self) -> int:
        """The measured moment in ns at which the last rank ends the step."""
        finish = self.graph.finish
        return max((int(finish[node]) for node in self.graph.sinks.values()), default=self.begin_ns)

    def bounds(self, finish: Ints) -> tuple[int, int]:
        """Begin and end of the step in ns, given the ends of its nodes: the last rank counts."""
        graph = self.graph
        begin = max((int(finish[node]) for node in graph.origins.values()), default=self.begin_ns)
        return begin, max((int(finish[node]) for node in graph.sinks.values()), default=begin)

    @cached_property
    def free_ns(self) -> int:
        """The least time in ns in which a rank's device is idle: no change of the host can gain more.

        Transfers whose ranks were all seen to meet may then run beside compute, and do not count.
        """
        begin, end = self.bounds(self.graph.finish)
        work = np.isin(self.component, WORK)
        met = self.graph.target[self.graph.kind == MET]
        work[met[self.component[met] == "comm"]] = False
        busy = [
            union_of_intervals(
                np.clip(self.graph.start[mine], begin, end), np.clip(self.graph.finish[mine], begin, end)
            ).total
            for rank in self.graph.sinks
            if (mine := work & (self.graph.rank == rank)).any()
        ]
        return end - begin - max(busy, default=0)

    @cached_property
    def called(self) -> tuple[list[tuple[str, str]], np.ndarray]:
        """Each distinct name with its type, and for each node the index of its task's name and type."""
        places: dict[tuple[str, str], int] = {}
        code = [places.setdefault(pair, len(places)) for pair in zip(self.name, self.type, strict=True)]
        return list(places), np.array(code, dtype=np.int64)

    @cached_property
    def last_in(self) -> tuple[list[int], list[int]]:
        """For each node, the measured edge with the latest end, and that end in ns; -1 and 0 without an edge."""
        graph = self.graph
        ready = graph.finish[graph.pred] + graph.lag
        # Sort by node, then by time, the first of equal edges last: the last edge of each node counts.
        order = np.lexsort((-np.arange(len(ready)), ready, graph.target))
        edge = np.full(len(graph.start), NONE, dtype=np.int64)
        edge[graph.target[order]] = order
        return edge.tolist(), np.where(edge == NONE, 0, ready[edge] if len(ready) else 0).tolist()


def job_step(
    parts: Sequence[RankPart],
    rows: Mapping[int, RankRows],
    meetings: Sequence[Mapping[int, int]],
    fused: Sequence[Mapping[int, int]] = (),
) -> JobStep:
    """Join the parts and rows of several ranks into one step; ranks meet in collectives and in fused kernels."""
    graph = joined(parts, meetings, fused)
    component, name, kind = (np.full(len(graph.start), "", dtype=object) for _ in range(3))
    sizes = np.full(len(graph.start), NONE, dtype=np.int64)
    reason = np.zeros((len(graph.pred), len(REASONS)), dtype=np.int64)
    for part in parts:
        own = rows[part.rank]
        _describe(graph, part, own, component, name, kind)
        _measure(graph, part, own, sizes)
        _explain(graph, part, own, reason)
    finish = graph.finish
    begins = [int(finish[node]) for node in graph.origins.values()]
    begin = max(begins) if begins else min((part.start_ns + part.offset_ns for part in parts), default=0)
    return JobStep(graph=graph, component=component, name=name, type=kind, bytes=sizes, reason=reason, begin_ns=begin)


def _describe(
    graph: EventGraph, part: RankPart, rows: RankRows, component: np.ndarray, name: np.ndarray, kind: np.ndarray
) -> None:
    """Fill in component, name and type of each task of a rank."""
    tasks = part.graph.tasks
    types = dict(rows.kernel.select("kernel_id", "type").iter_rows())
    ops = dict(rows.comm_op.select("comm_id", "op").iter_rows())
    for node in np.flatnonzero((graph.rank == part.rank) & (graph.task != NONE)).tolist():
        task = int(graph.task[node])
        component[node] = tasks.component[task]
        comm, kernel = int(tasks.comm[task]), int(tasks.kernel[task])
        name[node] = rows.comm_names[comm] if comm != NONE else rows.kernel_names[kernel]
        kind[node] = (ops[comm] if comm != NONE else types[kernel]) or ""


def _measure(graph: EventGraph, part: RankPart, rows: RankRows, sizes: Ints) -> None:
    """Fill in the bytes of each transfer of a rank."""
    moved = dict(rows.comm_op.drop_nulls("bytes").select("comm_id", "bytes").iter_rows())
    tasks = part.graph.tasks
    for node in np.flatnonzero((graph.rank == part.rank) & (graph.task != NONE)).tolist():
        sizes[node] = moved.get(int(tasks.comm[graph.task[node]]), NONE)


def _explain(graph: EventGraph, part: RankPart, rows: RankRows, reason: np.ndarray) -> None:
    """Fill in what a rank's host did on each edge of work; time that no call covers is the last reason."""
    target = graph.target
    for thread, (pid, tid) in enumerate(part.graph.threads):
        mine = np.flatnonzero(
            (graph.kind == WORKED) & (graph.rank[target] == part.rank) & (graph.thread[target] == thread)
        )
        if not len(mine):
            continue
        begin = graph.start[graph.pred[mine]] - part.offset_ns
        end = begin + graph.lag[mine]
        for why, when in host_reasons(rows, pid, tid).items():
            reason[mine, REASONS.index(why)] = when.lasted(end) - when.lasted(begin)
        reason[mine, REASONS.index(OUTSIDE)] = graph.lag[mine] - reason[mine].sum(axis=1)
