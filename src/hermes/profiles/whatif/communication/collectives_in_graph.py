"""Finds the collectives in a step's graph, and the collectives whose sizes could be changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hermes.knowledge.links import PART_OF_HCCL
from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS
from hermes.profiles.measure.path.event_graph import DEVICE, FREE, MET, ORDER, WORK, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.rank_nodes import RankPart
from hermes.profiles.measure.path.step_path import RankRows

SUM = "all_reduce"
"""The collective that sums gradients over ranks when each rank has all parameters."""


_PART = re.compile(PART_OF_HCCL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One collective on the ranks that were read; `bytes` is the payload of a rank.

    `bytes` is one of `parts` equal parts of the whole; `parts` is 0 if their number is unknown. `arrival` and
    `transfer` are nodes by rank. `meeting` is the node of all ranks, -1 if only one rank was read. `before` is, by
    rank, the transfer of the previous collective on the same stream.
    """

    op: str
    group: str
    bytes: int
    step: int
    meeting: int
    arrival: Mapping[int, int]
    transfer: Mapping[int, int]
    before: Mapping[int, int] = field(default_factory=dict)
    parts: int = 1

    @property
    def link(self) -> tuple[str, tuple[int, ...]]:
        """Operation and ranks of the collective: equal links move data alike, whatever their groups are called."""
        return self.op, tuple(sorted(self.transfer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Consecutive collectives of one group and step; none of them waits for the result of another."""

    operations: tuple[Operation, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all collectives of the family."""
        return sum(one.bytes for one in self.operations)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the family that were read."""
        return tuple(sorted(self.operations[0].transfer))

    @property
    def ends(self) -> tuple[int, ...]:
        """The running total of bytes after each collective."""
        found, total = [], 0
        for one in self.operations:
            total += one.bytes
            found.append(total)
        return tuple(found)


def operations_of(
    graph: EventGraph, parts: Sequence[RankPart], rows: Mapping[int, RankRows], sizes: Mapping[str, int | None]
) -> list[Operation]:
    """The collectives with recorded sizes, by transfer start; `sizes` has the number of ranks by group."""
    target = graph.target
    meeting: dict[int, int] = {}
    arrival: dict[int, int] = {}
    for edge, kind in enumerate(graph.kind.tolist()):
        pred, node = int(graph.pred[edge]), int(target[edge])
        if kind == MET and graph.rank[pred] == NONE:
            meeting[node] = pred
        elif kind == DEVICE and graph.task[pred] == NONE and graph.thread[pred] == NONE:
            arrival[node] = pred
    found: dict[int, list[tuple[int, int, dict[str, object]]]] = {}
    before = _before(graph, parts)
    for part in parts:
        known = {row["comm_id"]: row for row in rows[part.rank].comm_op.iter_rows(named=True)}
        for node in ((graph.rank == part.rank) & (graph.task != NONE)).nonzero()[0].tolist():
            row = known.get(int(part.graph.tasks.comm[graph.task[node]]))
            if row is not None and node in arrival and row["bytes"]:
                found.setdefault(meeting.get(node, node), []).append((part.rank, node, row))
    operations = [_operation(key, members, arrival, before, sizes) for key, members in found.items()]
    return sorted(operations, key=lambda one: min(int(graph.start[node]) for node in one.transfer.values()))


def _operation(
    key: int, members: Sequence[tuple[int, int, dict[str, object]]], arrival: Mapping[int, int],
    before: Mapping[int, int], sizes: Mapping[str, int | None],
) -> Operation:  # fmt: skip
    _, node, row = members[0]
    step = row["step"]
    part = row["library"] == SHOWN_AS_OPERATIONS and _PART.search(str(row["name"]))
    return Operation(
        op=str(row["op"]),
        group=str(row["group"]),
        bytes=int(str(row["bytes"])),
        step=NONE if step is None else int(str(step)),
        meeting=NONE if key == node else key,
        arrival={rank: arrival[one] for rank, one, _ in members},
        transfer={rank: one for rank, one, _ in members},
        before={rank: before[one] for rank, one, _ in members if one in before},
        parts=(sizes.get(str(row["group"])) or (len(members) if len(members) > 1 else 0)) if part else 1,
    )


def _before(graph: EventGraph, parts: Sequence[RankPart]) -> dict[int, int]:
    """For each collective, the previous collective on its stream or in its group."""
    found = {}
    for part in parts:
        last: dict[str, int] = {}
        tasks = part.graph.tasks
        for node in ((graph.rank == part.rank) & (graph.task != NONE)).nonzero()[0].tolist():
            task = int(graph.task[node])
            if tasks.component[task] == "comm":
                if tasks.line[task] in last:
                    found[node] = last[tasks.line[task]]
                last[tasks.line[task]] = node
    return found


def families(graph: EventGraph, operations: Sequence[Operation], component: np.ndarray) -> list[Family]:
    """Runs of gradient sums of one group and step; no sum waits for compute that needed another sum of the run.

    `component` says what each node is. A sum of tensor-parallel ranks is a run of its own: the compute after it needs
    it.
    """
    groups: dict[tuple[str, int, tuple[int, ...]], list[Operation]] = {}
    for one in operations:
        if one.op == SUM:
            groups.setdefault((one.group, one.step, tuple(sorted(one.transfer))), []).append(one)
    following = Following(graph, component)
    return [family for own in groups.values() for family in _runs(graph, own, following)]


class Following:
    """Finds the compute or host work that waits directly for a node."""

    def __init__(self, graph: EventGraph, component: np.ndarray) -> None:
        self._graph = graph
        self._uses = np.isin(component, ("compute", "copy")) | (graph.thread != NONE)
        self._event = (graph.task != NONE) & ~np.isin(component, WORK)
        holds = graph.kind != ORDER
        pred, target = graph.pred[holds], graph.target[holds]
        order = np.argsort(pred, kind="stable")
        self._target = target[order]
        self._first = np.searchsorted(pred[order], np.arange(len(graph.start) + 1))

    def used_ns(self, node: int) -> int:
        """The moment in ns at which the first compute or host that waits for a transfer goes on; else `FREE`."""
        found = self.use(node)
        return FREE if found == NONE else int(self._graph.start[found])

    def use(self, node: int) -> int:
        """The first compute or host node that waits for a transfer; -1 if there is none.

        The search follows events of streams, but no other collectives.
        """
        start, left, seen, found = self._graph.start, [node], {node}, NONE
        while left:
            for after in self._after(left.pop()):
                if after in seen:
                    continue
                seen.add(after)
                if self._uses[after]:
                    found = after if found == NONE or start[after] < start[found] else found
                elif self._event[after]:
                    left.append(after)
        return found

    def leads(self, node: int, to: int) -> bool:
        """Whether compute or the host after a node, through events of streams, leads to another node."""
        start, left, seen = self._graph.start, [node], {node}
        while left:
            one = left.pop()
            if one == to:
                return True
            for after in self._after(one):
                if after not in seen and start[after] <= start[to] and (self._uses[after] or self._event[after]):
                    seen.add(after)
                    left.append(after)
        return False

    def _after(self, node: int) -> list[int]:
        """The nodes of the same rank that wait for a node."""
        found = self._target[self._first[node] : self._first[node + 1]].tolist()
        return [after for after in found if self._graph.rank[after] == self._graph.rank[node]]


def _runs(graph: EventGraph, own: Sequence[Operation], following: Following) -> list[Family]:
    """Cut collectives into runs: a new run starts with a collective that waits for compute that needed an earlier one.

    If a trace shows no events, waits are inferred from times, and are wrong here and there. Most ranks decide.
    """
    used = [_used(graph, own, one, following) for one in own]
    found: list[list[int]] = []
    for at in range(len(own)):
        if found and all(used[before] > at for before in found[-1]):
            found[-1].append(at)
        else:
            found.append([at])
    return [Family(operations=tuple(own[at] for at in run)) for run in found]


def _used(graph: EventGraph, own: Sequence[Operation], one: Operation, following: Following) -> float:
    """The place of the first collective that arrives after this collective's result was used, on the median rank."""
    places = []
    for rank, node in one.transfer.items():
        arrivals = [int(graph.start[other.arrival[rank]]) for other in own]
        places.append(int(np.searchsorted(arrivals, following.used_ns(node))))
    return float(np.median(places))
