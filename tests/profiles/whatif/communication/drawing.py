"""Makes the graph of a step from a text drawing: what each rank computes and sends, without other work."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import groupby, pairwise

import numpy as np

from hermes.profiles.measure.path.event_builder import Builder
from hermes.profiles.measure.path.event_graph import DEVICE, MET
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.communication.collectives_in_graph import Operation
from hermes.profiles.whatif.communication.gradient_readiness import Compute, Gradients
from hermes.profiles.whatif.communication.search import MB, Exchange
from hermes.profiles.whatif.step_event_graph import JobStep

CELL_NS = 1_000_000
_LINE = re.compile(r"rank(?P<rank>\d+)\.(?P<lane>compute|comm)\s+(?P<cells>\S+)")
Runs = list[tuple[str, int, int]]


def exchange(text: str, sizes_mb: list[int], gradients_mb: dict[str, int] | None = None) -> Exchange:
    """The graph of a drawing with a cell a millisecond: runs of letters compute, runs of digits send `sizes_mb`.

    A size of 0 is the size of a single number, in a group of its own. A transfer begins when the last rank has done the
    work before it. The step ends with all of its work. A letter of `gradients_mb` computes a gradient of that many MB;
    by default no gradients were recorded.
    """
    builder, lanes = Builder(), _lanes(text)
    ranks = sorted(lanes)
    computed: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for rank in ranks:
        for name, start, cells in lanes[rank]["compute"]:
            node = builder.node(rank, start * CELL_NS, cells * CELL_NS, task=len(builder.start))
            if computed[rank]:
                builder.edge(computed[rank][-1][1], node, DEVICE)
            computed[rank].append((name, node))
    sent = [_send(builder, lanes, computed, at) for at in range(len(sizes_mb))]
    for before, after in pairwise(sent):
        for rank in ranks:
            builder.edge(before[2][rank], after[1][rank], DEVICE)
    sinks = {}
    for rank in ranks:
        last = [computed[rank][-1][1], *(one[2][rank] for one in sent)]
        sinks[rank] = builder.node(rank, max(map(builder.finish, last)), 0)
        for node in last:
            builder.edge(node, sinks[rank], DEVICE)
    return _made(builder, sinks, sent, sizes_mb, {rank: dict(own) for rank, own in computed.items()}, gradients_mb)


def _send(
    builder: Builder, lanes: dict[int, dict[str, Runs]], computed: dict[int, list[tuple[str, int]]], at: int
) -> tuple[int, dict[int, int], dict[int, int]]:
    """Meeting, arrivals and transfers of one collective."""
    begin = max(lanes[rank]["comm"][at][1] for rank in lanes) * CELL_NS
    arrivals, transfers = {}, {}
    for rank in lanes:
        ready = max((node for _, node in computed[rank] if builder.finish(node) <= begin), key=builder.finish)
        arrivals[rank] = builder.node(rank, builder.finish(ready), 0)
        builder.edge(ready, arrivals[rank], DEVICE)
    meeting = builder.node(NONE, begin, 0)
    for rank in lanes:
        builder.edge(arrivals[rank], meeting, MET)
        transfers[rank] = builder.node(rank, begin, lanes[rank]["comm"][at][2] * CELL_NS, task=len(builder.start))
        builder.edge(arrivals[rank], transfers[rank], DEVICE)
        builder.edge(meeting, transfers[rank], MET)
    return meeting, arrivals, transfers


def _lanes(text: str) -> dict[int, dict[str, Runs]]:
    found: dict[int, dict[str, Runs]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _LINE.fullmatch(line)
        assert match is not None, line
        at, runs = 0, []
        for letter, run in groupby(match["cells"]):
            cells = len(list(run))
            if letter != ".":
                runs.append((letter, at, cells))
            at += cells
        found.setdefault(int(match["rank"]), {})[match["lane"]] = runs
    return found


def _made(
    builder: Builder, sinks: dict[int, int], sent: list[tuple[int, dict[int, int], dict[int, int]]],
    sizes_mb: list[int], named: dict[int, dict[str, int]], gradients_mb: dict[str, int] | None,
) -> Exchange:  # fmt: skip
    order = np.lexsort(
        (np.arange(len(builder.start)), np.array(builder.start) + np.array(builder.dur), np.array(builder.start))
    )
    place = {int(node): at for at, node in enumerate(order)}
    graph = builder.events(sinks, {}, {})
    component = np.full(len(graph.start), "", dtype=object)
    operations, before = [], {}
    for size, (meeting, arrivals, transfers) in zip(sizes_mb, sent, strict=True):
        own = {rank: place[node] for rank, node in transfers.items()}
        component[list(own.values())] = "comm"
        operations.append(
            Operation(
                op="all_reduce", group="gradients" if size else "norm", bytes=size * MB or 4, step=1,
                meeting=place[meeting], transfer=own,
                arrival={rank: place[node] for rank, node in arrivals.items()}, before=before,
            )
        )  # fmt: skip
        before = own
    nodes = {rank: {letter: place[node] for letter, node in own.items()} for rank, own in named.items()}
    for own in nodes.values():
        component[list(own.values())] = "compute"
    zeros = np.zeros(len(graph.start), dtype=np.int64)
    job = JobStep(
        graph=graph, component=component, name=component, type=component, bytes=zeros,
        reason=np.zeros((len(graph.pred), 1)), begin_ns=0,
    )  # fmt: skip
    return Exchange(
        job=job, operations=tuple(operations),
        compute={rank: Compute(launched_ns=np.arange(len(own)), node=np.array([*own.values()]))
                 for rank, own in nodes.items()},
        gradients={} if gradients_mb is None else {rank: _gradients(own, gradients_mb) for rank, own in nodes.items()},
    )  # fmt: skip


def _gradients(nodes: dict[str, int], sizes_mb: dict[str, int]) -> Gradients:
    chosen = [(at, sizes_mb[letter] * MB) for at, letter in enumerate(nodes) if letter in sizes_mb]
    return Gradients(
        launched_ns=np.array([at for at, _ in chosen]), bytes=np.array([size for _, size in chosen]),
        step=np.full(len(chosen), 1),
    )  # fmt: skip
