"""Reads communication from a database: collectives, the transfers and waits inside them, process groups.

Traps: the group of an operation is the communicator's name, in other tables the group is its hash. Ranks of tasks count
within the group. Level0 has the tasks without kind, plane and ranks. Versions number links differently; the file's own
tables name them.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.knowledge.ascend_codes import BYTES_OF_DTYPE, OP_OF_HCCL, group_hash, op_of_hccl
from hermes.knowledge.vendor_traits import MARKED_ALONE, SHOWN_AS_OPERATIONS
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns, number_or_null, text_or_null
from hermes.profiles.read.ascend.db.database_info import DatabaseInfo
from hermes.profiles.read.ascend.db.device import Tasks
from hermes.profiles.read.ascend.db.host import Host
from hermes.profiles.read.ascend.db.marked_comm import marked_collectives
from hermes.profiles.read.ascend.db.task_launches import Launches
from hermes.profiles.read.assign_rows_to_steps import own_device

_OPERATION = WantedColumns(
    table="COMMUNICATION_OP",
    ints=("startNs", "endNs", "connectionId", "dataType", "count"),
    keys=("opId",),
    names=("opName", "groupName", "algType", "opType"),
    required=("startNs", "endNs", "opName"),
)
_TRANSFER = WantedColumns(
    table="COMMUNICATION_TASK_INFO",
    ints=("planeId", "srcRank", "dstRank", "transportType", "size", "linkType"),
    keys=("globalTaskId", "opId"),
    names=("taskType", "groupName"),
    required=("globalTaskId",),
)
_DATA_TYPES = {
    0: "INT8",
    1: "INT16",
    2: "INT32",
    3: "FP16",
    4: "FP32",
    5: "INT64",
    6: "UINT64",
    7: "UINT8",
    8: "UINT16",
    9: "UINT32",
    10: "FP64",
    11: "BFP16",
    12: "INT128",
}
_LINKS = {0: "ON_CHIP", 1: "HCCS", 2: "PCIE", 3: "ROCE", 4: "SIO", 5: "HCCS_SW", 6: "STANDARD_ROCE"}
_TRANSPORTS = {0: "SDMA", 1: "RDMA", 2: "LOCAL"}
_UNNAMED = ["N/A", "INVALID_TYPE", "INVALID", "RESERVED"]
_POINT_TO_POINT = ("send", "recv")
_MOST_MEMBERS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Comm:
    """Collectives (`comm_id`, `op_key`, …) and their tasks, not yet written."""

    ops: pl.DataFrame
    tasks: pl.DataFrame

    @property
    def claimed(self) -> pl.DataFrame:
        """`key` of every task inside a collective and `correlation` of every collective."""
        return pl.concat([self.tasks.select("key"), self.ops.select("correlation")], how="diagonal")


def read_comm(profile: Profile, tasks: Tasks) -> Comm:
    """The collectives and their tasks; numbers are decoded by the file's own tables."""
    ops = _operations(profile)
    inside = _transfers(profile).join(
        tasks.rows.select("key", "start_ns", "dur_ns", "stream", "task_type").unique("key", keep="first"),
        on="key",
        how="inner",
        maintain_order="left",
    )
    kind = pl.coalesce("task", "task_type").str.to_lowercase().str.replace_all(" ", "_", literal=True)
    kind = kind.str.replace("reduce_inline", "reduce", literal=True)
    numbers = ops.select("op_key", "comm_id").drop_nulls().unique("op_key", keep="first")
    inside = inside.with_columns(kind.alias("task")).join(numbers, on="op_key", how="left", maintain_order="left")
    return Comm(ops=ops, tasks=inside.drop("task_type").sort("start_ns", maintain_order=True))


def write_comm(profile: Profile, host: Host, launches: Launches, comm: Comm, about: DatabaseInfo) -> None:
    """Write `comm_op`, `comm_task` and `group`."""
    groups = _groups(profile, comm, about)
    profile.write("group", groups)
    members = groups.drop_nulls("global_rank").select("group", "member", pl.col("global_rank").alias("peer_rank"))
    members = members.unique(["group", "member"], keep="first")
    # A task names its own rank as source and the other side as destination, if there is another side.
    tasks = comm.tasks.with_columns(pl.coalesce("dst_rank", "src_rank").alias("member"))
    tasks = tasks.join(members, on=["group", "member"], how="left", maintain_order="left")
    own = pl.col("dst_rank").is_null() | (pl.col("dst_rank") == pl.col("src_rank"))
    tasks = tasks.with_columns(pl.when(~own).then("peer_rank").alias("peer_rank"))
    profile.write("comm_task", tasks.drop("key", "op_key", "member"))
    ops = own_device(host.step, launches.of(comm.ops)).join(_peers(tasks), on="comm_id", how="left")
    ops = ops.with_columns(pl.when(pl.col("op").is_in(_POINT_TO_POINT)).then("peer").alias("peer"))
    profile.write("comm_op", ops.drop("op_key", "launch_pid", "launch_tid").sort("comm_id"))


def _operations(profile: Profile) -> pl.DataFrame:
    if _OPERATION.table in profile.tables:
        dtypes = profile.enum("ENUM_HCCL_DATA_TYPE", _DATA_TYPES)
        found = profile.read(_OPERATION).with_columns(_decoded("dataType", dtypes).alias("dtype"))
        library = SHOWN_AS_OPERATIONS
    else:
        found, library = marked_collectives(profile), MARKED_ALONE
    rows = profile.spans(found, _OPERATION.table).sort("start_ns", maintain_order=True)
    named = _ops_by_name(rows["opName"]).rename("by_name")
    by_type = pl.col("opType").str.strip_prefix("hcom_").str.strip_chars_end("_").str.to_lowercase()
    op = pl.coalesce(by_type.replace_strict(OP_OF_HCCL, default=None, return_dtype=pl.String), "by_name")
    dtype = pl.col("dtype")
    count = pl.when(pl.col("count") >= 0).then(pl.col("count"))
    width = dtype.replace_strict(BYTES_OF_DTYPE, default=None, return_dtype=pl.Int64)
    rows = rows.with_columns(named, _hashed(rows["groupName"]).alias("group"))
    return rows.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("comm_id"),
        pl.col("opId").alias("op_key"),
        pl.col("opName").alias("name"),
        op.alias("op"),
        pl.lit(library).alias("library"),
        "group",
        pl.when(pl.col("group").is_not_null()).then(pl.int_range(pl.len()).over("group")).alias("sequence"),
        "start_ns",
        "dur_ns",
        number_or_null("connectionId").alias("correlation"),
        (count * width).alias("bytes"),
        count.alias("count"),
        "dtype",
        text_or_null("algType").alias("algorithm"),
    )


def _transfers(profile: Profile) -> pl.DataFrame:
    rows = profile.read(_TRANSFER)
    size = pl.col("size")
    return rows.select(
        pl.col("globalTaskId").alias("key"),
        pl.col("opId").alias("op_key"),
        text_or_null("taskType").alias("task"),
        _hashed(rows["groupName"]).alias("group"),
        number_or_null("planeId").alias("plane"),
        number_or_null("srcRank").alias("src_rank"),
        number_or_null("dstRank").alias("dst_rank"),
        pl.when(size >= 0).then(size).alias("bytes"),
        _decoded("transportType", profile.enum("ENUM_HCCL_TRANSPORT_TYPE", _TRANSPORTS)).alias("transport"),
        _decoded("linkType", profile.enum("ENUM_HCCL_LINK_TYPE", _LINKS)).alias("link"),
    )


def _peers(tasks: pl.DataFrame) -> pl.DataFrame:
    """The `peer` of each operation whose tasks all name the same other rank."""
    named = tasks.drop_nulls(["comm_id", "peer_rank"]).group_by("comm_id")
    peers = named.agg(pl.col("peer_rank").first().alias("peer"), pl.col("peer_rank").n_unique().alias("count"))
    return peers.filter(pl.col("count") == 1).drop("count")


def _groups(profile: Profile, comm: Comm, about: DatabaseInfo) -> pl.DataFrame:
    """The members of groups as the job recorded them; else as many members as the tasks name."""
    recorded = pl.DataFrame(about.members, schema=_MEMBER_SCHEMA, orient="row")
    used = pl.concat([comm.ops.select("group"), comm.tasks.select("group")]).drop_nulls().unique(maintain_order=True)
    unknown = used.join(recorded, on="group", how="anti")["group"].to_list()
    sized = [_sized(profile, comm, about, group, alone=used.height == 1 and not about.members) for group in unknown]
    return pl.concat([recorded, *sized]).sort("group", "member", maintain_order=True)


def _sized(profile: Profile, comm: Comm, about: DatabaseInfo, group: str, *, alone: bool) -> pl.DataFrame:
    tasks = comm.tasks.filter(pl.col("group") == group)
    ranks = pl.concat([tasks["src_rank"], tasks["dst_rank"]]).drop_nulls()
    top = ranks.max()
    if not isinstance(top, int) or not 0 <= top < _MOST_MEMBERS:
        return pl.DataFrame(schema=_MEMBER_SCHEMA)
    size = top + 1
    own = tasks["src_rank"].drop_nulls().unique().to_list()
    whole = size == about.world_size or (alone and about.world_size is None)
    named = whole and own == [about.rank]
    if named:
        whole_job = messages.AS_LARGE_AS_JOB if about.world_size else messages.ONLY_GROUP
        profile.sink.note(
            "info",
            messages.group_sized(group=group, whole=whole_job, rank=about.rank, last=size - 1),
            where=str(profile.databases[0].path),
        )
    communicator = about.communicators.get(group)
    rows = [(group, None, communicator, member, member if named else None) for member in range(size)]
    return pl.DataFrame(rows, schema=_MEMBER_SCHEMA, orient="row")


def communicators(profile: Profile) -> dict[str, str]:
    """The name of each communicator by its hash."""
    names: set[str] = set()
    for wanted in (_OPERATION, _TRANSFER):
        only = WantedColumns(table=wanted.table, names=("groupName",))
        names.update(profile.read(only)["groupName"].drop_nulls().unique().to_list())
    return {group_hash(name): name for name in names if _is_name(name)}


def _hashed(names: pl.Series) -> pl.Series:
    """The key of each group: the hash of a communicator's name; a number is a hash already."""
    keys = {name: group_hash(name) if _is_name(name) else name for name in names.drop_nulls().unique().to_list()}
    keys = {name: key for name, key in keys.items() if name not in _UNNAMED}
    return names.replace_strict(list(keys), list(keys.values()), default=None, return_dtype=pl.String)


def _is_name(name: str) -> bool:
    return not name.isdecimal() and name not in _UNNAMED


def _ops_by_name(names: pl.Series) -> pl.Series:
    ops = {name: op_of_hccl(name) for name in names.unique().to_list()}
    return names.replace_strict(list(ops), list(ops.values()), default="unknown", return_dtype=pl.String)


def _decoded(column: str, names: dict[int, str]) -> pl.Expr:
    named = {number: name for number, name in names.items() if name not in _UNNAMED}
    return pl.col(column).replace_strict(named, default=None, return_dtype=pl.String)


_MEMBER_SCHEMA = {
    "group": pl.String(),
    "name": pl.String(),
    "communicator": pl.String(),
    "member": pl.Int64(),
    "global_rank": pl.Int64(),
}
