"""Builds the event graph of one rank, or of several ranks that meet at collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.path.event_builder import Builder
from hermes.profiles.measure.path.event_graph import MET, EventGraph
from hermes.profiles.measure.path.graph import Graph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.rank_nodes import ArrivedRank, RankNodes, RankPart, of_kernel


def events(graph: Graph, arrivals: Mapping[int, Arrival], start_ns: int, end_ns: int) -> EventGraph:
    """The event graph of one rank in the window `[start_ns, end_ns)`; other ranks arrive as measured. O(n log n)."""
    return joined([RankPart(rank=0, graph=graph, arrivals=arrivals, start_ns=start_ns, end_ns=end_ns)])


def joined(
    parts: Sequence[RankPart], meetings: Sequence[Mapping[int, int]] = (), fused: Sequence[Mapping[int, int]] = ()
) -> EventGraph:
    """The event graph of several ranks.

    `meetings` are their common collectives, as rows of `comm_op` by rank; `fused` their common kernels, as rows of
    `kernel` by rank. A meeting is over when its last rank has arrived; the rest is each rank's own transfer or work.
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


def _meet(builder: Builder, members: Sequence[ArrivedRank]) -> int:
    """Add the node at which the last member has arrived; clock errors do not move it after any member's end."""
    last = max(max(builder.start[member.node], member.outside_ns) for member in members)
    node = builder.node(NONE, min([last, *(member.end_ns for member in members)]), 0)
    for member in members:
        # The last rank to arrive must keep its role even if its clock is off by some microseconds.
        builder.pull(member.node, builder.start[node])
        builder.edge(member.node, node, MET)
    return node
