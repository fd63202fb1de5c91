"""Rebuilds a step's graph with sharded units gathered earlier, or with neighbouring units merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hermes.profiles.measure.path.event_graph import DEVICE, MET, ORDER, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.communication.collective_cost import Case, CollectiveCost, Link
from hermes.profiles.whatif.communication.collectives_in_graph import Operation
from hermes.profiles.whatif.communication.rebuild_with_buckets import SWITCH_NS, ChangedGraph
from hermes.profiles.whatif.communication.sharded_units import SCATTER, Sharded

Unit = tuple[int, ...]
"""Neighbouring sharded units that are merged into one, by their numbers in the forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout to try: how many units earlier gathers are launched, and how many neighbours are merged into a unit."""

    forward: int = 0
    backward: int = 0
    merged: int = 1

    def units(self, one: Sharded) -> tuple[Unit, ...]:
        """The units in forward order; units that stay whole are not merged."""
        rest = range(one.kept, len(one.forward))
        merged = [tuple(rest[at : at + self.merged]) for at in range(0, len(rest), self.merged)]
        return tuple([*((at,) for at in range(one.kept)), *merged])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A collective of the plan: the collectives that it replaces, and the collective in whose place it is launched."""

    members: tuple[Operation, ...]
    place: Operation


def regathered(
    graph: EventGraph, passes: Sequence[Sharded], layout: Layout, *, ahead: tuple[int, int],
    computed: Mapping[int, int], costs: Mapping[Link, CollectiveCost], case: Case,
) -> EventGraph:  # fmt: skip
    """The graph with another layout of units.

    `ahead` is how many units before their use gathers are launched now. `computed` is, by arrival, the compute launched
    before it. A gather that is launched earlier takes the place of an earlier unit's gather: its launch, the waits of
    that launch, and its turn on the stream. A merged gather is launched the same number of units ahead; a merged
    scatter is launched with the last of its units. Each takes as long as its members together less the saved fixed
    times. Work that went on before the last scatter had arrived waited for no scatter. Raises `TangledError`.
    """
    made = ChangedGraph(graph)
    planned = [(one, plan) for one in passes for plan in _planned(one, layout, ahead)]
    for one, _ in planned:
        made.gone.update(*({*op.arrival.values()} | {*op.transfer.values()} | {op.meeting} for op in one.every))
    made.gone.discard(NONE)
    last: dict[tuple[str, tuple[int, ...], bool], dict[int, int]] = {}
    apart = _apart(passes)
    for one, plan in planned:
        lane = (plan.place.group, one.ranks, apart and plan.place.op == SCATTER)
        saved = (len(plan.members) - 1) * costs[plan.place.link].ns(0, case)
        now = _put(made, graph, plan, last.get(lane, {}), computed, saved)
        last[lane] = now
        for member in plan.members:
            made.replace(member, now, one.scatters[-1] if member.op == SCATTER else None)
    for one in passes:
        _inherit(made, graph, one, ahead)
    return made.graph()


def _put(
    made: ChangedGraph,
    graph: EventGraph,
    plan: _Planned,
    last: Mapping[int, int],
    computed: Mapping[int, int],
    saved_ns: int,
) -> dict[int, int]:
    """Add a planned collective to the graph; returns its transfer nodes by rank."""
    meeting, now = made.node(NONE, 0), {}
    for rank, old in plan.place.arrival.items():
        took = sum(int(graph.dur[member.transfer[rank]]) for member in plan.members)
        arrival = made.node(rank, 0)
        now[rank] = made.node(rank, max(1, took - saved_ns))
        for edge in range(int(graph.first[old]), int(graph.first[old + 1])):
            pred, kind = int(graph.pred[edge]), int(graph.kind[edge])
            if kind != ORDER and pred not in made.gone:
                made.edge(arrival, pred, int(graph.lag[edge]), kind)
        if old in computed:
            made.edge(arrival, computed[old], 0, DEVICE)
        if rank in last:
            made.edge(arrival, last[rank], SWITCH_NS, DEVICE)
        made.edge(meeting, arrival, 0, MET)
        made.edge(now[rank], meeting, 0, MET)
    return now


def _inherit(made: ChangedGraph, graph: EventGraph, one: Sharded, ahead: tuple[int, int]) -> None:
    """Let compute wait directly for what an earlier-launched collective waited for, if that collective delayed it.

    Collective and compute both follow the compute before them, and all that it had waited for. A trace tells only the
    last of these waits.
    """
    pairs = [
        *((gather, own[max(0, at - now)]) for own, now in ((one.forward, ahead[0]), (one.backward, ahead[1]))
          for at, gather in enumerate(own)),
        *zip(one.scatters, one.backward[1:], strict=False),
    ]  # fmt: skip
    after = _after(graph, [node for gather in (*one.forward, *one.backward) for node in gather.transfer.values()])
    for launched, held in pairs:
        for rank, arrival in launched.arrival.items():
            for pred in _before(graph, arrival, made.gone):
                for target in after.get(held.transfer[rank], ()):
                    if target not in made.gone and graph.start[pred] + graph.dur[pred] <= graph.start[target]:
                        made.edge(target, pred, 0, DEVICE)


def _before(graph: EventGraph, arrival: int, gone: Collection[int]) -> list[int]:
    """The nodes that an arrival waits for and that are not removed."""
    edges = range(int(graph.first[arrival]), int(graph.first[arrival + 1]))
    found = (int(graph.pred[edge]) for edge in edges if graph.kind[edge] != ORDER)
    return [pred for pred in found if pred not in gone]


def _after(graph: EventGraph, nodes: Sequence[int]) -> Mapping[int, list[int]]:
    """For each node, the nodes of its own rank that wait for it."""
    target, found = graph.target, dict[int, list[int]]()
    edges = np.flatnonzero((graph.kind != ORDER) & np.isin(graph.pred, nodes))
    for pred, node in zip(graph.pred[edges].tolist(), target[edges].tolist(), strict=True):
        if graph.rank[node] == graph.rank[pred]:
            found.setdefault(pred, []).append(node)
    return found


def _apart(passes: Sequence[Sharded]) -> bool:
    """Whether scatters run on a stream of their own."""
    gathers = {node for one in passes for op in (*one.forward, *one.backward) for node in op.transfer.values()}
    return not any(node in gathers for one in passes for op in one.scatters for node in op.before.values())


def _planned(one: Sharded, layout: Layout, ahead: tuple[int, int]) -> Iterator[_Planned]:
    """The planned collectives of a pass, in the order in which they are launched."""
    units, many = layout.units(one), len(one.forward)
    turned = [tuple(many - 1 - at for at in reversed(unit)) for unit in reversed(units) if unit[0] >= one.kept]
    found: list[tuple[int, int, _Planned]] = []
    for own, order, now, more in (
        (one.forward, units, ahead[0], layout.forward), (one.backward, turned, ahead[1], layout.backward),
    ):  # fmt: skip
        for at, unit in enumerate(order):
            # When a unit is used, the unit that many places ahead is launched.
            used = at - now - more
            place = own[min(order[used][0] + now, len(own) - 1)] if used > 0 else own[0]
            found.append((one.every.index(place), at, _Planned(members=tuple(own[at] for at in unit), place=place)))
    for unit in units:
        scatters = tuple(one.scatter(number) for number in reversed(unit))
        found.append((one.every.index(scatters[-1]), 0, _Planned(members=scatters, place=scatters[-1])))
    yield from (plan for *_, plan in sorted(found, key=lambda row: row[:2]))
