"""The canonical tables of communication: operations, their tasks, and the profilers' own sums by link."""

from __future__ import annotations

from hermes.model.tables.columns import DUR as _DUR
from hermes.model.tables.columns import RANK as _RANK
from hermes.model.tables.columns import START as _START
from hermes.model.tables.columns import STEP as _STEP
from hermes.model.tables.schema import Column, Table

COMM_OP = Table(
    "comm_op",
    "one collective or point-to-point operation of one rank",
    (
        _RANK,
        Column("comm_id", "int", "Number of the row within its rank, from 0."),
        Column("name", "text", "Name as recorded."),
        Column(
            "op",
            "text",
            "`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `send`, … or `unknown`.",
        ),
        Column("library", "text", "`hccl`, `nccl`, `rccl`, `gloo`, `deepep`, …", null="not recognised"),
        Column("group", "text", "Group, a key of the table `group`.", null="not recorded"),
        Column(
            "sequence",
            "int",
            "How many operations the group had before it on this rank in this capture.",
            null="no group",
        ),
        Column("stream", "int", "Stream.", null="spread over several, or not recorded"),
        _START,
        _DUR,
        _STEP,
        Column("correlation", "int", "Equal in the launching `host_op` row.", null="no link"),
        Column("launch_ns", "int", "Start of the host call that launched it.", "ns", null="not in the capture"),
        Column("bytes", "int", "Payload of this rank.", "B", null="not recorded"),
        Column("count", "int", "Elements.", null="not recorded"),
        Column("dtype", "text", "Element type.", null="not recorded"),
        Column("algorithm", "text", "Algorithm, such as `MESH-RING`.", null="not recorded"),
        Column(
            "peer",
            "int",
            "Global rank of the other side of a point-to-point operation.",
            null="a collective, or not recorded",
        ),
    ),
)

COMM_TASK = Table(
    "comm_task",
    "one transfer, wait or notification inside a communication operation",
    (
        _RANK,
        Column("comm_id", "int", "The row of `comm_op`.", null="belongs to no recorded operation"),
        Column("task", "text", "`notify_wait`, `notify_record`, `memcpy`, `reduce`, `write`, `rdma`, … in lower case."),
        Column("plane", "int", "Plane of the group.", null="not recorded"),
        Column("stream", "int", "Stream.", null="not recorded"),
        _START,
        _DUR,
        Column("src_rank", "int", "Rank within the group that the task reads from or waits at.", null="not recorded"),
        Column(
            "dst_rank",
            "int",
            "Rank within the group that the task writes to or waits for.",
            null="itself, or not recorded",
        ),
        Column("peer_rank", "int", "Global rank of the other side.", null="the group's members are not recorded"),
        Column("group", "text", "Group, a key of the table `group`.", null="not recorded"),
        Column("bytes", "int", "Bytes moved.", "B", null="moves none, or not recorded"),
        Column("transport", "text", "`SDMA`, `RDMA`, `LOCAL`, …", null="not recorded"),
        Column("link", "text", "`HCCS`, `PCIE`, `ROCE`, `SIO`, `ON_CHIP`, …", null="not recorded"),
    ),
)

COMM_TRAFFIC = Table(
    "comm_traffic",
    "traffic of one communication operation by transport and packet size, as the profiler summed it",
    (
        _RANK,
        _STEP,
        Column("name", "text", "Name of the operation."),
        Column("group", "text", "Group, a key of the table `group`.", null="not recorded"),
        Column("transport", "text", "`HCCS`, `RDMA`, `PCIE`, `SIO`, `SDMA` (sum of the on-board ones)."),
        Column("packet_bytes", "int", "Size of the packets of this row.", "B", null="the row sums all sizes"),
        Column("packets", "int", "How many.", null="the row sums all sizes"),
        Column("bytes", "int", "Bytes moved.", "B"),
        Column("time_ns", "int", "Time of the transfers, added over links.", "ns"),
    ),
)

COMM_LINK = Table(
    "comm_link",
    "traffic between two ranks, as the profiler summed it",
    (
        _RANK,
        _STEP,
        Column("name", "text", "Class of operations, such as `allreduce-top1`."),
        Column("group", "text", "Group, a key of the table `group`.", null="not recorded"),
        Column("src_rank", "int", "Sending rank within the group."),
        Column("dst_rank", "int", "Receiving rank within the group."),
        Column("transport", "text", "`LOCAL`, `HCCS`, `RDMA`, `PCIE`, `SIO`.", null="not recorded"),
        Column("bytes", "int", "Bytes moved.", "B"),
        Column("time_ns", "int", "Time of the transfers.", "ns"),
    ),
)

COMM_REPORTED = Table(
    "comm_reported",
    "split of one communication operation as the profiler reports it",
    (
        _RANK,
        _STEP,
        Column("name", "text", "Name of the operation; `Total Op Info` sums a step."),
        Column("group", "text", "Group, a key of the table `group`.", null="not recorded, or a sum"),
        Column("kind", "text", "`collective` or `p2p`."),
        Column("start_ns", "int", "Start; the writer keeps a fraction of a microsecond only.", "ns", null="a sum"),
        Column("elapse_ns", "int", "Elapsed time.", "ns"),
        Column("transit_ns", "int", "Transfers of the main plane.", "ns"),
        Column("wait_ns", "int", "Waiting.", "ns"),
        Column("sync_ns", "int", "Waiting before the first transfer.", "ns"),
        Column("idle_ns", "int", "The rest.", "ns"),
    ),
)
