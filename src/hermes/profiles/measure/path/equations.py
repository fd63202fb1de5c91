"""The equations of one rank or of several, from their graphs and the collectives at which they met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.profiles.measure.communication.arrivals import Arrival
from hermes.profiles.measure.path.event_builder import Builder
from hermes.profiles.measure.path.event_graph import MET, EventGraph
from hermes.profiles.measure.path.graph import Graph
from hermes.profiles.measure.path.lanes import NONE
from hermes.profiles.measure.path.rank_nodes import Arrived, Part, RankNodes, of_kernel


def events(graph: Graph, arrivals: Mapping[int, Arrival], start_ns: int, end_ns: int) -> EventGraph:
    """The equations of one rank in the window `[start_ns, end_ns)`; other ranks arrive when they did. O(n log n)."""
    return joined([Part(rank=0, graph=graph, arrivals=arrivals, start_ns=start_ns, end_ns=end_ns)])


def joined(
    parts: Sequence[Part], meetings: Sequence[Mapping[int, int]] = (), fused: Sequence[Mapping[int, int]] = ()
) -> EventGraph:
    """The equations of several ranks; `meetings` are their common collectives, by rank the row of `comm_op`, `fused`
    their common kernels, by rank the row of `kernel`.

    A meeting is over when the last of its ranks has arrived; what follows is transfer or work, and each rank's own.
    """
    builder = Builder()
    ranks = [RankNodes(part, builder) for part in parts]
    arrivals = [rank.arrive() for rank in ranks]
    seen = {key: arrived for of_rank in arrivals for key, arrived in of_rank.items()}
    met: dict[tuple[int, int], int] = {}
    for meeting in (*meetings, *({rank: of_kernel(row) for rank, row in one.items()} for one in fused)):
        members = {key: seen[key] for key in meeting.items() if key in seen}
        if len(members) > 1:
            node = _meet(builder, list(members.values()))
            met |= dict.fromkeys(members, node)
    for rank in ranks:
        rank.place(met)
    done = {rank.part.rank: rank.connect(met) for rank in ranks}
    sinks = {rank: nodes[-1] for rank, nodes in done.items()}
    origins = {rank: nodes[0] for rank, nodes in done.items() if len(nodes) > 1}
    return builder.events(sinks, {part.rank: part.end_ns + part.offset_ns for part in parts}, origins)


def _meet(builder: Builder, members: Sequence[Arrived]) -> int:
    """The node at which the last member has arrived; clocks that are off do not let it be after an end."""
    last = max(max(builder.start[member.node], member.outside_ns) for member in members)
    node = builder.node(NONE, min([last, *(member.end_ns for member in members)]), 0)
    for member in members:
        # The last to arrive must not be lost for some microseconds that its clock is off.
        builder.pull(member.node, builder.start[node])
        builder.edge(member.node, node, MET)
    return node
