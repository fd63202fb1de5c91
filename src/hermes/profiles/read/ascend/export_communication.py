"""Reads communication of an Ascend text export: group operations, their tasks on planes, the profiler's own sums.

Traps: group lanes carry an index (old) or the hash (new), operation names only the last three digits of the hash.
Source and destination ranks are places within the group. `communication.json` loses nanoseconds in its start times; its
SDMA entry is the sum of HCCS, PCIE and SIO. Level0 has the operations but no tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl

from hermes.base.units import bytes_of, ns_of_ms, ns_of_us, whole_number
from hermes.knowledge.ascend_codes import BYTES_OF_DTYPE, op_of_hccl
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import load_json
from hermes.profiles.read.ascend.profiler_info import Job, Member
from hermes.profiles.read.assign_rows_to_steps import own_device
from hermes.profiles.read.query import fetched
from hermes.profiles.read.table_sink import Sink

_MB = 1_000_000
_NUMBER = re.compile("[0-9]+")
_HASH = re.compile("[0-9]{7,}")
_POINT_TO_POINT = ("send", "recv", "send_recv")


def read_sums(paths: tuple[Path, ...], sink: Sink) -> None:
    """Write comm_reported, comm_traffic and comm_link from `communication.json` and `communication_matrix.json`."""
    reported: list[dict[str, Any]] = []
    traffic: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for path in paths:
        try:
            content = load_json(path, limit=1 << 30)
        except (OSError, ValueError) as broken:
            sink.note(
                "degraded",
                messages.no_json(why=str(broken)[:120]),
                where=str(path),
                lost=messages.LOST_PROFILERS_SUMS,
                hint=messages.DO_KILLED_PROFILER,
            )
            continue
        bad = 0
        for step, kind, name, record in _records(content):
            try:
                if path.name == "communication_matrix.json":
                    links.extend(_links(step, name, record))
                else:
                    # A sum over the operations, which the database export does not keep either.
                    if name == "Total Op Info":
                        continue
                    reported.append(_reported(step, kind, name, record))
                    traffic.extend(_traffic(step, name, record))
            except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
                bad += 1
        if bad:
            sink.note("degraded", messages.operations_unknown(n=bad), where=str(path), lost=messages.LOST_OPERATIONS)
    for table, rows in (("comm_reported", reported), ("comm_traffic", traffic), ("comm_link", links)):
        if rows:
            # A cell of another type than its column's counts as missing.
            schema = schema_of(TABLES[table])
            sink.frame(table, pl.DataFrame(rows, schema={name: schema[name] for name in rows[0]}, strict=False))


def _records(content: Mapping[str, Any]) -> Iterator[tuple[int | None, str, str, Any]]:
    for label, kinds in content.items():
        step = whole_number(label.removeprefix("step"))
        for kind, operations in kinds.items() if isinstance(kinds, dict) else ():
            for name, record in operations.items() if isinstance(operations, dict) else ():
                yield step, kind, name, record


def _split(name: str) -> tuple[str, str | None]:
    operation, _, group = name.partition("@")
    return operation, group or None


def _reported(step: int | None, kind: str, name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    times = record["Communication Time Info"]
    operation, group = _split(name)
    start = times.get("Start Timestamp(us)")
    return {
        "step": step,
        "name": operation,
        "group": group,
        "kind": kind,
        "start_ns": ns_of_us(str(start)) if start and str(start) != "0" else None,
        "elapse_ns": ns_of_ms(str(times["Elapse Time(ms)"])),
        "transit_ns": ns_of_ms(str(times["Transit Time(ms)"])),
        "wait_ns": ns_of_ms(str(times["Wait Time(ms)"])),
        "sync_ns": ns_of_ms(str(times["Synchronization Time(ms)"])),
        "idle_ns": ns_of_ms(str(times["Idle Time(ms)"])),
    }


def _traffic(step: int | None, name: str, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    operation, group = _split(name)
    for transport, sums in record.get("Communication Bandwidth Info", {}).items():
        size, time = Decimal(str(sums["Transit Size(MB)"])), Decimal(str(sums["Transit Time(ms)"]))
        if not size and not time:
            continue
        base = {"step": step, "name": operation, "group": group, "transport": transport}
        yield base | {
            "packet_bytes": None,
            "packets": None,
            "bytes": bytes_of(str(size), _MB),
            "time_ns": ns_of_ms(str(time)),
        }
        for packet, (count, total) in (sums.get("Size Distribution") or {}).items():
            one = bytes_of(packet, _MB)
            yield base | {
                "packet_bytes": one,
                "packets": int(count),
                "bytes": one * int(count),
                "time_ns": ns_of_ms(str(total)),
            }


def _links(step: int | None, name: str, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    operation, group = _split(name)
    for pair, sums in record.items():
        source, _, target = pair.partition("-")
        yield {
            "step": step,
            "name": operation,
            "group": group,
            "src_rank": _place(source),
            "dst_rank": _place(target),
            "transport": str(sums.get("Transport Type", "")),
            "bytes": bytes_of(str(sums["Transit Size(MB)"]), _MB),
            "time_ns": ns_of_ms(str(sums["Transit Time(ms)"])),
        }


def _place(text: str) -> int:
    place = whole_number(text)
    if place is None:
        raise ValueError(f"no place in a group: {text[:40]!r}")
    return place


_TRACED = (
    "SELECT g.* EXCLUDE (launch_ns), coalesce(launch_ns, call_ns) AS launch_ns FROM group_op g "
    "LEFT JOIN call USING (correlation)"
)
_DETAILED = (
    "SELECT name, NULL::VARCHAR AS lane, start_ns, dur_ns, NULL::BIGINT AS correlation, NULL::BIGINT AS launch_ns, "
    "NULL::VARCHAR AS dtype, NULL::VARCHAR AS algorithm, NULL::BIGINT AS count, detail_step FROM detail "
    "WHERE coalesce(core, '') IN ('HCCL', 'COMMUNICATION') OR name LIKE 'hcom_%'"
)


def read_operations(
    con: duckdb.DuckDBPyConnection, step: pl.DataFrame, job: Job, rank: int, sink: Sink, *, traced: bool
) -> None:
    """Write comm_op, comm_task and group, from the trace or, without one, from kernel_details."""
    rows = fetched(con, _TRACED if traced else _DETAILED)
    if traced and not rows.height:
        # If a trace was cut off before its communication, the other file may have the lost part.
        rows = fetched(con, _DETAILED)
        if rows.height:
            sink.note("info", messages.operations_from_kernels(n=rows.height))
    operations = _operations(rows, step, _Groups.of(job, sink))
    tasks = _tasks(fetched(con, "SELECT * FROM plane_task"), operations) if traced else None
    groups = _groups(job, operations, tasks, rank, sink)
    if groups.height:
        sink.frame("group", groups)
    operations = operations.drop("lane")
    if tasks is not None and tasks.height:
        tasks = _with_peers(tasks, groups.select("group", "member", "global_rank"))
        sink.frame("comm_task", tasks)
        operations = operations.join(_other_side(tasks, operations), on="comm_id", how="left", maintain_order="left")
        operations = operations.with_columns(pl.when(pl.col("op").is_in(_POINT_TO_POINT)).then("peer").alias("peer"))
    sink.frame("comm_op", operations)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The group keys that the files name, and for each operation with one group in all files, that group's key."""

    keys: frozenset[str]
    of_operation: Mapping[str, str]

    @classmethod
    def of(cls, job: Job, sink: Sink) -> _Groups:
        """The group keys that the small files name."""
        keys = {member[0] for member in job.members}
        named: dict[str, set[str]] = {}
        for table in ("comm_reported", "comm_link"):
            for name, group in sink.read(table).select("name", "group").drop_nulls().unique().iter_rows():
                keys.add(group)
                named.setdefault(name, set()).add(group)
        return cls(frozenset(filter(None, keys)), {name: min(of) for name, of in named.items() if len(of) == 1})


def _operations(rows: pl.DataFrame, step: pl.DataFrame, groups: _Groups) -> pl.DataFrame:
    lanes = {}
    for lane, name in rows.select("lane", "name").unique().sort("lane", "name").iter_rows():
        lanes[(lane, name)] = _group_of(lane, name, groups)
    keys = [lanes[pair] for pair in rows.select("lane", "name").iter_rows()]
    rows = rows.with_columns(
        pl.Series("group", keys, dtype=pl.String),
        pl.Series("op", [op_of_hccl(name) for name in rows["name"]], dtype=pl.String),
        pl.lit("hccl").alias("library"),
        (pl.col("count") * pl.col("dtype").replace_strict(BYTES_OF_DTYPE, default=None, return_dtype=pl.Int64)).alias(
            "bytes"
        ),
    ).sort("start_ns", "name")
    rows = rows.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("comm_id"),
        pl.when(pl.col("group").is_not_null())
        .then(pl.int_range(pl.len(), dtype=pl.Int64).over("group"))
        .alias("sequence"),
    )
    rows = own_device(step, rows)
    if "detail_step" in rows.columns:
        # Without a trace no step is marked, but kernel_details numbers its rows.
        rows = rows.with_columns(pl.coalesce("detail_step", "step").alias("step")).drop("detail_step")
    return rows


def _group_of(lane: str | None, name: str, groups: _Groups) -> str | None:
    """The key of a group: its hash from the lane, else the hash in a file, else any known part.

    The hash in a file may be the only one with the last digits of the operation's name. A key may be any text.
    """
    if lane and _HASH.fullmatch(lane):
        return lane
    if name in groups.of_operation:
        return groups.of_operation[name]
    text = name.split("__")[1].split("_")[0] if "__" in name else ""
    digits = whole_number(text)
    if digits is not None:
        fitting = [key for key in groups.keys if _NUMBER.fullmatch(key) and whole_number(key[-3:]) == digits]
        if len(fitting) == 1:
            return fitting[0]
    return f"group {lane}" if lane else (f"group …{text}" if text else None)


def _tasks(rows: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """Give each task the surrounding operation of its lane."""
    holders = operations.select(
        "lane",
        "comm_id",
        "group",
        pl.col("start_ns").alias("op_ns"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("op_end"),
    ).sort("op_ns")
    rows = rows.sort("start_ns").with_row_index("task_row")
    near = rows.join_asof(
        holders, left_on="start_ns", right_on="op_ns", by="lane", strategy="backward", check_sortedness=False
    ).filter(pl.col("start_ns") < pl.col("op_end"))
    # If operations of a lane overlap, the latest may have ended while an earlier one still runs.
    rest = rows.join(near.select("task_row"), on="task_row", how="anti").join(holders, on="lane")
    rest = rest.filter((pl.col("op_ns") <= pl.col("start_ns")) & (pl.col("start_ns") < pl.col("op_end")))
    rest = rest.sort("op_ns").unique("task_row", keep="last")
    found = pl.concat([near, rest]).select("task_row", "comm_id")
    groups = holders.group_by("lane").agg(pl.col("group").first())
    rows = (
        rows.join(found, on="task_row", how="left")
        .join(groups, on="lane", how="left")
        .sort("task_row")
        .drop("task_row")
    )
    return rows.with_columns(
        pl.col("name")
        .str.to_lowercase()
        .str.replace_all(" ", "_")
        .str.replace("reduce_inline", "reduce")
        .alias("task"),
        pl.when(pl.col("link") != "INVALID_TYPE").then(pl.col("link")).alias("link"),
    ).drop("lane", "name")


def _groups(job: Job, operations: pl.DataFrame, tasks: pl.DataFrame | None, rank: int, sink: Sink) -> pl.DataFrame:
    rows: list[Member] = list(job.members)
    listed = {group for group, *_ in rows}
    unlisted = sorted({group for group in operations["group"] if group} - listed)
    places = {group: _places(group, tasks, sink) for group in unlisted}
    largest = max([one.size for one in places.values()] + [*Counter(group for group, *_ in rows).values()], default=0)
    for group, one in places.items():
        world = one.own == {rank} and one.size == largest
        if world:
            sink.note("info", messages.group_members(group=group, n=one.size, last=one.size - 1, rank=rank))
        rows.extend((group, None, None, place, place if world else None) for place in range(one.size))
    schema = {
        "group": pl.String(),
        "name": pl.String(),
        "communicator": pl.String(),
        "member": pl.Int64(),
        "global_rank": pl.Int64(),
    }
    return pl.DataFrame(rows, schema=schema, orient="row").sort("group", "member")


class _Places(NamedTuple):
    """The number of places that tasks and links name in a group, and the places of this rank."""

    size: int
    own: frozenset[int]


def _places(key: str, tasks: pl.DataFrame | None, sink: Sink) -> _Places:
    """The places of a group that no file lists.

    Only the largest group, in which this rank's place equals its global rank, can be the world; its places are then
    taken as global ranks.
    """
    links = sink.read("comm_link").filter(pl.col("group") == key)
    places = [*links["src_rank"], *links["dst_rank"]]
    own: set[int] = set()
    if tasks is not None:
        mine = tasks.filter(pl.col("group") == key)
        places += [*mine["src_rank"].drop_nulls(), *mine["dst_rank"].drop_nulls()]
        own = set(mine["src_rank"].drop_nulls())
    return _Places(size=int(max(places, default=-1)) + 1, own=frozenset(own))


def _with_peers(tasks: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """The other side of each task as a global rank: the rank it writes to or waits for, unless that is itself."""
    peers = members.rename({"member": "dst_rank", "global_rank": "peer_rank"})
    joined = tasks.join(peers, on=["group", "dst_rank"], how="left", maintain_order="left")
    itself = pl.col("dst_rank") == pl.col("src_rank")
    return joined.with_columns(pl.when(~itself.fill_null(value=False)).then("peer_rank").alias("peer_rank"))


def _other_side(tasks: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """The `peer` of each operation: the rank that the last task to end within it names.

    A simultaneous send and receive differ only by their starts, and the last tasks of one lie within the other. But
    these tasks end early within the other, or after its end. If two ranks are named at the same moment, the peer stays
    unknown.
    """
    end = pl.col("start_ns") + pl.col("dur_ns")
    own = operations.select("comm_id", end.alias("out_ns"))
    named = tasks.drop_nulls(["comm_id", "peer_rank"]).with_columns(end.alias("end_ns"))
    within = named.join(own, on="comm_id").filter(pl.col("end_ns") <= pl.col("out_ns"))
    lasts = within.filter(pl.col("end_ns") == pl.col("end_ns").max().over("comm_id")).group_by("comm_id")
    sides = lasts.agg(pl.col("peer_rank").first().alias("peer"), pl.col("peer_rank").n_unique().alias("sides"))
    return sides.filter(pl.col("sides") == 1).drop("sides")
