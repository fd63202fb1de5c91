"""Builds the step of a job without a device as an event graph, for the search of bucket sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.errors import InputError
from hermes.base.intervals import Ints
from hermes.model.step_measures import StepSplit
from hermes.profiles.load import Loaded, present
from hermes.profiles.measure.path.event_builder import Builder
from hermes.profiles.measure.path.event_graph import DEVICE, MET
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.whatif import messages
from hermes.profiles.whatif.communication.collectives_in_graph import SUM, Operation
from hermes.profiles.whatif.communication.gradient_readiness import Compute, Gradients
from hermes.profiles.whatif.step_event_graph import JobStep

_COMM_OP = ("comm_id", "op", "group", "bytes", "step", "start_ns", "dur_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorStep:
    """The step of a job without a device: its graph, its collectives, and the compute before each gradient."""

    job: JobStep
    operations: tuple[Operation, ...]
    compute: Mapping[int, Compute]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """One collective on one rank, in ns on the common clock."""

    op: str
    group: str
    bytes: int
    start_ns: int
    end_ns: int


class _Rank:
    """The work of one rank in the step: it computes up to each gradient, waits for collectives, and goes on."""

    def __init__(
        self, split: StepSplit, sent: Mapping[int, _Sent], gradients: Gradients | None, offset_ns: int
    ) -> None:
        self.begin_ns = split.start_ns + offset_ns
        self.end_ns = self.begin_ns + split.window_ns
        self.sent = sent
        taken = np.empty(0, dtype=np.int64) if gradients is None else gradients.launched_ns
        inside = np.unique(taken[(taken > self.begin_ns) & (taken < self.end_ns)])
        last = int(inside[-1]) if len(inside) else self.begin_ns
        later = {one.start_ns for one in sent.values() if last < one.start_ns < self.end_ns}
        self.cuts = np.concatenate([inside, np.array(sorted(later), dtype=np.int64)])
        self._last = last
        self.nodes: list[int] = []

    def compute(self, rank: int, builder: Builder) -> None:
        """Add the rank's compute to the graph: up to each gradient, and from finished collectives to the next send."""
        begin = self.begin_ns
        for cut in self.cuts.tolist():
            if cut > self._last:
                ends = [one.end_ns for one in self.sent.values() if begin < one.end_ns <= cut]
                begin = max(ends, default=begin)
            node = builder.node(rank, begin, cut - begin, task=len(builder.start))
            if self.nodes:
                builder.edge(self.nodes[-1], node, DEVICE)
            self.nodes.append(node)
            begin = cut

    def wait(self, builder: Builder, transfers: Sequence[int]) -> None:
        """Let the compute after the last gradient wait for the transfers that had arrived when it began."""
        for cut, node in zip(self.cuts.tolist(), self.nodes, strict=True):
            for transfer in transfers if cut > self._last else ():
                if builder.finish(transfer) <= builder.start[node]:
                    builder.edge(transfer, node, DEVICE)

    def before(self, moment: int) -> int:
        """The compute node that the rank had finished by a moment."""
        place = int(np.searchsorted(self.cuts, moment, side="right")) - 1
        return self.nodes[max(place, 0)]

    def finish(self, rank: int, builder: Builder, transfers: Sequence[int]) -> int:
        """Add the rank's work after its last transfer to the graph; returns that node."""
        waited = max([builder.finish(self.nodes[-1]), *map(builder.finish, transfers)])
        after = builder.node(rank, waited, max(0, self.end_ns - waited), task=len(builder.start))
        for node in (self.nodes[-1], *transfers):
            builder.edge(node, after, DEVICE)
        return after


def processor_step(loaded: Loaded, outline: JobOutline, gradients: Mapping[int, Gradients]) -> ProcessorStep:
    """The slowest rank's typical step on all ranks; raises `InputError` if no step was marked."""
    slowest = outline.steps.slowest
    if slowest is None:
        raise InputError(
            messages.NO_MARKED_STEP, where=", ".join(map(str, loaded.paths)),
            hint=messages.DO_MARK_STEPS,
        )  # fmt: skip
    offsets = {clock.rank: clock.offset_ns for clock in outline.clocks}
    chosen = {split.rank: split for split in outline.steps.every if split.step == slowest.step}
    ranks = {}
    for data in loaded.ranks:
        if data.rank in chosen:
            split, offset = chosen[data.rank], offsets.get(data.rank, 0)
            rows = present(data).between("comm_op", _COMM_OP, split.start_ns, split.start_ns + split.window_ns)
            own = {comm: sent for comm, sent in _sent(rows.filter(pl.col("step") == split.step), offset)}
            ranks[data.rank] = _Rank(split, own, gradients.get(data.rank), offset)
    return _joined(ranks, outline.meetings(), slowest.step)


def _sent(rows: pl.DataFrame, offset_ns: int) -> list[tuple[int, _Sent]]:
    columns = rows.drop_nulls("bytes").filter(pl.col("op") == SUM)
    return [
        (comm, _Sent(op=op, group=str(group), bytes=size, start_ns=start + offset_ns, end_ns=start + dur + offset_ns))
        for comm, op, group, size, start, dur in columns.select(
            "comm_id", "op", "group", "bytes", "start_ns", "dur_ns"
        ).iter_rows()
    ]


def _joined(ranks: Mapping[int, _Rank], met: Sequence[Mapping[int, int]], step: int | None) -> ProcessorStep:
    builder = Builder()
    for rank, own in ranks.items():
        own.compute(rank, builder)
    operations: list[Operation] = []
    together = [
        meeting for meeting in met if all(rank in ranks and comm in ranks[rank].sent for rank, comm in meeting.items())
    ]
    begun = {id(one): max(ranks[rank].sent[comm].start_ns for rank, comm in one.items()) for one in together}
    for meeting in sorted(together, key=lambda one: begun[id(one)]):
        sent = {rank: ranks[rank].sent[comm] for rank, comm in meeting.items()}
        operations.append(_met(builder, ranks, sent, operations[-1].transfer if operations else {}, step))
    sinks = {}
    for rank, own in ranks.items():
        transfers = [one.transfer[rank] for one in operations if rank in one.transfer]
        own.wait(builder, transfers)
        sinks[rank] = own.finish(rank, builder, transfers)
    return _placed(builder, ranks, operations, sinks)


def _met(
    builder: Builder, ranks: Mapping[int, _Rank], sent: Mapping[int, _Sent], before: Mapping[int, int],
    step: int | None,
) -> Operation:  # fmt: skip
    """Add a collective to the graph: its transfer begins when the last rank has arrived."""
    begin = max(one.start_ns for one in sent.values())
    arrival, transfer = {}, {}
    for rank, one in sent.items():
        arrival[rank] = builder.node(rank, one.start_ns, 0)
        builder.edge(ranks[rank].before(one.start_ns), arrival[rank], DEVICE)
    meeting = builder.node(NONE, begin, 0)
    for rank, one in sent.items():
        builder.edge(arrival[rank], meeting, MET)
        transfer[rank] = builder.node(rank, begin, max(0, one.end_ns - begin), task=len(builder.start))
        builder.edge(arrival[rank], transfer[rank], DEVICE)
        builder.edge(meeting, transfer[rank], MET)
    first = next(iter(sent.values()))
    return Operation(
        op=first.op, group=first.group, bytes=first.bytes, step=NONE if step is None else step, meeting=meeting,
        arrival=arrival, transfer=transfer, before=dict(before),
    )  # fmt: skip


def _placed(
    builder: Builder, ranks: Mapping[int, _Rank], operations: Sequence[Operation], sinks: Mapping[int, int]
) -> ProcessorStep:
    """The step with its graph's nodes sorted by their end, then by their start."""
    start, dur = np.array(builder.start, dtype=np.int64), np.array(builder.dur, dtype=np.int64)
    order = np.lexsort((np.arange(len(start)), start + dur, start))
    place: Ints = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    graph = builder.events(sinks, {}, {})
    component = np.full(len(start), "", dtype=object)
    compute = {}
    for rank, own in ranks.items():
        nodes = place[own.nodes]
        component[nodes] = "compute"
        component[place[sinks[rank]]] = "compute"
        compute[rank] = Compute(launched_ns=own.cuts, node=nodes)

    def moved(nodes: Mapping[int, int]) -> dict[int, int]:
        return {rank: int(place[node]) for rank, node in nodes.items()}

    made = []
    for one in operations:
        component[[*moved(one.transfer).values()]] = "comm"
        made.append(
            Operation(
                op=one.op, group=one.group, bytes=one.bytes, step=one.step, meeting=int(place[one.meeting]),
                arrival=moved(one.arrival), transfer=moved(one.transfer), before=moved(one.before),
            )
        )  # fmt: skip
    job = JobStep(
        graph=graph, component=component, name=component, type=component, bytes=np.full(len(start), NONE),
        reason=np.zeros((len(graph.pred), 1), dtype=np.int64),
        begin_ns=min(own.begin_ns for own in ranks.values()),
    )  # fmt: skip
    return ProcessorStep(job=job, operations=tuple(made), compute=compute)
