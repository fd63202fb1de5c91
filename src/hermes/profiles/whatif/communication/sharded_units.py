"""Finds sharded parameters in a step: units that are gathered before their use, and whose gradients are scattered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import FREE, LAUNCHED, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.communication.collectives_in_graph import Following, Operation
from hermes.profiles.whatif.communication.gradient_readiness import Compute

GATHER, SCATTER = "all_gather", "reduce_scatter"
_FEWEST = 3
"""With fewer units there is nothing to gather ahead of its use."""
_CLOSE_NS, _MOST = 1_000, 0.9


@dataclass(frozen=True, kw_only=True)
class Sharded:
    """The sharded units of one pass through forward and backward.

    `forward` holds a gather for each unit. `backward` holds the last unit first, without the units that stayed whole,
    which are the first units of forward. `scatters` holds the last unit first.
    """

    every: tuple[Operation, ...]
    forward: tuple[Operation, ...]
    backward: tuple[Operation, ...]
    scatters: tuple[Operation, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the units that were read."""
        return tuple(sorted(self.forward[0].transfer))

    @property
    def kept(self) -> int:
        """How many units stay whole from forward to backward."""
        return len(self.forward) - len(self.backward)

    @cached_property
    def bytes(self) -> tuple[int, ...]:
        """The bytes of each unit: of the whole unit if the number of ranks that share it is known."""
        return tuple(one.bytes * max(1, one.parts) for one in self.forward)

    @property
    def whole(self) -> bool:
        """Whether the bytes of whole units are known."""
        return all(one.parts for one in self.forward)

    def scatter(self, unit: int) -> Operation:
        """The scatter of a unit's gradients."""
        return self.scatters[len(self.forward) - 1 - unit]


def sharded(graph: EventGraph, operations: Sequence[Operation], component: np.ndarray) -> list[Sharded]:
    """The passes in which a group gathers units twice and scatters each unit once, by time.

    The compute of the next unit does not need the result of a scatter. Sequence-parallel and context-parallel ranks use
    what they gather and scatter at once: their collectives are not sharded units.
    """
    groups: dict[tuple[str, int, tuple[int, ...]], list[Operation]] = {}
    for one in operations:
        if one.op in (GATHER, SCATTER):
            groups.setdefault((one.group, one.step, tuple(sorted(one.transfer))), []).append(one)
    following = Following(graph, component)
    found = []
    for own in groups.values():
        made = [_pass(some) for some in _repeated(own)]
        kept = [one for one in made if one is not None]
        if len(kept) == len(made) and all(_unused(graph, one, following) for one in kept):
            found += kept
    return sorted(found, key=lambda one: _begin(graph, one.forward[0]))


def _begin(graph: EventGraph, one: Operation) -> int:
    return min(int(graph.start[node]) for node in one.arrival.values())


def _repeated(own: Sequence[Operation]) -> list[Sequence[Operation]]:
    """Cut collectives into equal passes, one for each micro-batch."""
    kinds = [(one.op, one.bytes) for one in own]
    many = len(own)
    for length in range(2 * _FEWEST, many // 2 + 1):
        if many % length == 0 and kinds == kinds[:length] * (many // length):
            return [own[at : at + length] for at in range(0, many, length)]
    return [own]


def _pass(own: Sequence[Operation]) -> Sharded | None:
    """The units of a pass; None if sizes or order are not those of sharded training."""
    gathers = tuple(one for one in own if one.op == GATHER)
    scatters = tuple(one for one in own if one.op == SCATTER)
    many = len(scatters)
    if many < _FEWEST or not many < len(gathers) <= 2 * many:
        return None
    made = Sharded(every=tuple(own), forward=gathers[:many], backward=gathers[many:], scatters=scatters)
    if own.index(scatters[0]) < own.index(made.forward[-1]):
        return None
    same = [one.bytes for one in reversed(made.backward)] == [one.bytes for one in made.forward[made.kept :]]
    # Gradients may have another data type than parameters.
    first = made.scatter(0).bytes / made.forward[0].bytes
    alike = all(made.scatter(at).bytes == first * made.forward[at].bytes for at in range(many))
    return made if same and alike else None


def _unused(graph: EventGraph, one: Sharded, following: Following) -> bool:
    """Whether the compute of no later unit needs a scatter's result, on most ranks.

    Kernels that divide or cast a result on their own stream delay nothing. Work that begins after the end of the next
    collective may wait for that collective alone.
    """
    finish = graph.finish
    uses = {rank: [following.use(gather.transfer[rank]) for gather in one.backward] for rank in one.ranks}
    for scatter, after in pairwise(one.every):
        if scatter.op != SCATTER:
            continue
        used = 0
        for rank, node in scatter.transfer.items():
            first = following.use(node)
            if first == NONE or graph.start[first] >= finish[after.transfer[rank]]:
                continue
            later = [use for use in uses[rank] if use != NONE and graph.start[use] >= graph.start[first]]
            used += bool(later) and following.leads(first, min(later, key=lambda use: int(graph.start[use])))
        if 2 * used > len(scatter.transfer):
            return False
    return True


def units_gathered_ahead(
    graph: EventGraph, one: Sharded, following: Following, compute: Mapping[int, Compute]
) -> tuple[int, int]:  # fmt: skip
    """How many units before their use gathers are launched, in forward and in backward."""
    gathers = sum(other.op == GATHER for other in one.every[: one.every.index(one.scatters[0])])
    rank = one.ranks[0]
    own = compute.get(rank)
    backward = max(0, gathers - len(one.forward) - 1)
    if own is None or not len(own.node):
        return 0, backward
    used = [following.used_ns(gather.transfer[rank]) for gather in one.forward]
    begun, launched = graph.start[own.node], own.launched_ns
    sent = np.array([_launched_ns(graph, gather.arrival[rank]) for gather in one.forward])
    found = []
    for at, (begin, end) in enumerate(pairwise(used)):
        inside = launched[(begun >= begin) & (begun < end)]
        if end != FREE and len(inside):
            found.append(int(np.count_nonzero(sent[at + 1 :] < np.median(inside))))
    return round(median(found)) if found else 0, backward


def computed_before(
    graph: EventGraph, passes: Sequence[Sharded], compute: Mapping[int, Compute]
) -> Mapping[int, int]:  # fmt: skip
    """For each arrival, the compute that was launched last before it: the collective waits for that compute too.

    A trace may tell only the wait that ended last. If a gather began before its compute was done, gathers wait for no
    compute.
    """
    found: dict[int, int] = {}
    for one in passes:
        for own in ((*one.forward, *one.backward), one.scatters):
            nodes = {arrival: node for gather in own for arrival, node in _computed(graph, gather, compute)}
            done = {
                arrival: node
                for arrival, node in nodes.items()
                if graph.finish[node] <= graph.start[arrival] + _CLOSE_NS
            }
            if own is one.scatters or _MOST * len(nodes) <= len(done):
                found |= done
    return found


def _computed(graph: EventGraph, one: Operation, compute: Mapping[int, Compute]) -> Iterator[tuple[int, int]]:
    for rank, arrival in one.arrival.items():
        own = compute.get(rank)
        place = -1 if own is None else int(np.searchsorted(own.launched_ns, _launched_ns(graph, arrival))) - 1
        if own is not None and place >= 0:
            yield arrival, int(own.node[place])


def _launched_ns(graph: EventGraph, arrival: int) -> int:
    """The moment in ns at which the host launched a collective; if unknown, the moment of its arrival."""
    edges = np.arange(graph.first[arrival], graph.first[arrival + 1])
    calls: Ints = graph.pred[edges[graph.kind[edges] == LAUNCHED]]
    return int(graph.start[calls[0]]) if len(calls) else int(graph.start[arrival])
