"""A step of a job as equations of time, with what each node and each stretch of host work is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hermes.analyze.graph import NONE
from hermes.analyze.net import WORKED, Net, Part, joined
from hermes.analyze.step_path import RankRows, host_reasons
from hermes.knowledge.host_work import OUTSIDE, REASONS


@dataclass(frozen=True, kw_only=True)
class JobStep:
    """One step of all ranks that were read.

    By node: `component` (`compute`, `comm`, `copy`, … or empty), `name` and `type` of its task. By edge: `reason`
    holds, for the edges of host work, nanoseconds by reason, in the order of `REASONS`; zero for all others. `begin_ns`
    is where the step begins, on the common clock.
    """

    net: Net
    component: np.ndarray
    name: np.ndarray
    type: np.ndarray
    reason: np.ndarray
    begin_ns: int

    @property
    def end_ns(self) -> int:
        """When the last rank ends, as measured."""
        finish = self.net.finish
        return max((int(finish[node]) for node in self.net.sinks.values()), default=self.begin_ns)

    @cached_property
    def called(self) -> tuple[list[tuple[str, str]], np.ndarray]:
        """Each name with its type, once, and for each node which of them its task has."""
        places: dict[tuple[str, str], int] = {}
        code = [places.setdefault(pair, len(places)) for pair in zip(self.name, self.type, strict=True)]
        return list(places), np.array(code, dtype=np.int64)

    @cached_property
    def last_in(self) -> tuple[list[int], list[int]]:
        """For each node the edge that it waited for longest, as measured, and until when; -1 and 0 without an edge."""
        net = self.net
        ready = net.finish[net.pred] + net.lag
        # By node, then by time, of equals the first edge: the last of each node is the one.
        order = np.lexsort((-np.arange(len(ready)), ready, net.target))
        edge = np.full(len(net.start), NONE, dtype=np.int64)
        edge[net.target[order]] = order
        return edge.tolist(), np.where(edge == NONE, 0, ready[edge] if len(ready) else 0).tolist()


def job_step(parts: Sequence[Part], rows: Mapping[int, RankRows], meetings: Sequence[Mapping[int, int]]) -> JobStep:
    """The step of several ranks from their parts and rows."""
    net = joined(parts, meetings)
    component, name, kind = (np.full(len(net.start), "", dtype=object) for _ in range(3))
    reason = np.zeros((len(net.pred), len(REASONS)), dtype=np.int64)
    for part in parts:
        own = rows[part.rank]
        _describe(net, part, own, component, name, kind)
        _explain(net, part, own, reason)
    begin = min((part.start_ns + part.offset_ns for part in parts), default=0)
    return JobStep(net=net, component=component, name=name, type=kind, reason=reason, begin_ns=begin)


def _describe(net: Net, part: Part, rows: RankRows, component: np.ndarray, name: np.ndarray, kind: np.ndarray) -> None:
    """Component, name and type of each task of a rank."""
    tasks = part.graph.tasks
    types = dict(rows.kernel.select("kernel_id", "type").iter_rows())
    ops = dict(rows.comm_op.select("comm_id", "op").iter_rows())
    for node in np.flatnonzero((net.rank == part.rank) & (net.task != NONE)).tolist():
        task = int(net.task[node])
        component[node] = tasks.component[task]
        comm, kernel = int(tasks.comm[task]), int(tasks.kernel[task])
        name[node] = rows.comm_names[comm] if comm != NONE else rows.kernel_names[kernel]
        kind[node] = (ops[comm] if comm != NONE else types[kernel]) or ""


def _explain(net: Net, part: Part, rows: RankRows, reason: np.ndarray) -> None:
    """What a rank's host did on each edge of work; what no call covers is the last reason."""
    target = net.target
    for thread, (pid, tid) in enumerate(part.graph.threads):
        mine = np.flatnonzero((net.kind == WORKED) & (net.rank[target] == part.rank) & (net.thread[target] == thread))
        if not len(mine):
            continue
        begin = net.start[net.pred[mine]] - part.offset_ns
        end = begin + net.lag[mine]
        for why, when in host_reasons(rows, pid, tid).items():
            reason[mine, REASONS.index(why)] = when.lasted(end) - when.lasted(begin)
        reason[mine, REASONS.index(OUTSIDE)] = net.lag[mine] - reason[mine].sum(axis=1)
