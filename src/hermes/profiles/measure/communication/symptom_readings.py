"""Declares the readings of communication that symptoms of cases compare."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.comm_measures import Alignment, Contention, GroupKind, LatencyFit, LinkPair, Packets, SlowRank, Stall
from hermes.model.job import JobMeasures
from hermes.model.step_measures import ArrivalWait
from hermes.model.symptom import SLOWEST, STEPS, WINDOW, Value, ratio, reading

DIMENSIONS = ("dp", "tp", "pp", "ep", "cp", "world", "any")
"""Dimensions that a group may serve."""
_SMALL_BYTES = {"SDMA": 16_000_000, "RDMA": 1_000_000}
"""Smaller transfers do not reach the speed of their link: packet rule of msprof-analyze."""

ratio(ArrivalWait, "wait.share", "waiting for the last rank of collectives", "total_ns", STEPS, WINDOW, total=True)
ratio(
    GroupKind, "comm.waste", "waiting for the last member, of the time of operations", "waste", by="kind", of=DIMENSIONS
)
ratio(
    GroupKind,
    "comm.dimension_share",
    "transfers of a dimension that nothing hides, in the step",
    "transfer_ns",
    "ranks",
    STEPS,
    SLOWEST,
    less="hidden_ns",
    by="kind",
    of=DIMENSIONS,
    absent=0.0,
)
ratio(
    GroupKind,
    "comm.hidden_share",
    "transfer beside which the rank computed",
    "hidden_ns",
    "transfer_ns",
    by="kind",
    of=DIMENSIONS,
)
ratio(GroupKind, "comm.of_link", "speed over what the link is built for", "of_link", by="kind", of=DIMENSIONS)
ratio(
    GroupKind,
    "comm.operations",
    "operations of a step",
    "operations",
    "groups",
    STEPS,
    unit="count",
    by="kind",
    of=DIMENSIONS,
    absent=0.0,
)
ratio(
    GroupKind, "comm.size", "mean size of an operation", "bytes", "operations", unit="bytes", by="kind", of=DIMENSIONS
)
ratio(
    GroupKind,
    "comm.idle_share",
    "no task of the operation under way, after the last arrival",
    "idle_ns",
    "elapse_ns",
    by="kind",
    of=DIMENSIONS,
)
ratio(GroupKind, "comm.group_size", "members of groups", "size", unit="count", by="kind", of=DIMENSIONS, absent=0.0)
ratio(LatencyFit, "comm.fixed_share", "fixed cost of operations in their time", "fixed_share")
ratio(
    Alignment,
    "comm.unaligned_share",
    "time of transfers whose size is no multiple of 512 bytes",
    "unaligned_time_ns",
    "time_ns",
)
ratio(Stall, "comm.stalled", "transfers of ten times the usual time", "stalled", unit="count")
ratio(Stall, "comm.longest_stall", "the longest of them", "longest_ns", unit="ms")
ratio(
    Contention,
    "comm.contention",
    "time beside the other kind over time alone",
    "slowdown",
    unit="ratio",
    by="kind",
    of=("compute", "communication"),
)
ratio(SlowRank, "comm.last_share", "steps in which one rank held the others up longest", "blocks_last", "blocks")
ratio(LinkPair, "comm.link_ratio", "time of one link over that of its peers for the same size", "ratio", unit="ratio")


@reading(
    "comm.transport", "link that carries most of the time, such as `HCCS`, `RDMA`, `PCIE`",
    "communication.kinds[].transport", unit="text", of=DIMENSIONS,
)  # fmt: skip
def _transport(measures: JobMeasures, of: str) -> Iterator[Value]:
    yield from (row.transport for row in measures.rows(GroupKind) if of in ("any", row.kind) and row.transport)


@reading(
    "comm.small_share", "bytes in transfers below 16 MB (SDMA) or 1 MB (RDMA)",
    "communication.packets[].least_bytes communication.packets[].bytes", of=tuple(_SMALL_BYTES),
)  # fmt: skip
def _small(measures: JobMeasures, of: str) -> Iterator[Value]:
    rows = [
        row
        for row in measures.rows(Packets)
        if row.transport != "LOCAL" and (row.transport == "RDMA") is (of == "RDMA")
    ]
    total = sum(row.bytes for row in rows)
    if total:
        yield sum(row.bytes for row in rows if 2 * row.least_bytes <= _SMALL_BYTES[of]) / total
