"""Writes the databases that an export leaves inside `PROF_*`, from the exported database of the same job.

The layout follows the public sources of CANN's msprof. The older version names a collective in its tasks and gives it
no time of its own; the newer version gives it a start and an end.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

_TASKS = """SELECT t.modelId, 0, t.streamId, t.taskId, t.contextId, 0, t.startNs, t.endNs - t.startNs, k.value, k.value,
    t.connectionId FROM TASK t JOIN STRING_IDS k ON k.id = t.taskType"""
_OPERATORS = """SELECT 0, n.value, t.streamId, t.taskId, c.blockDim, c.mixBlockDim, NULL, k.value, o.value,
    0, 0, 0, 0, 1, f.value, d.value, s.value, g.value, e.value, z.value, t.deviceId, t.contextId, NULL, NULL
    FROM COMPUTE_TASK_INFO c JOIN TASK t USING (globalTaskId) JOIN STRING_IDS n ON n.id = c.name
    JOIN STRING_IDS k ON k.id = c.taskType JOIN STRING_IDS o ON o.id = c.opType
    JOIN STRING_IDS f ON f.id = c.inputFormats JOIN STRING_IDS d ON d.id = c.inputDataTypes
    JOIN STRING_IDS s ON s.id = c.inputShapes JOIN STRING_IDS g ON g.id = c.outputFormats
    JOIN STRING_IDS e ON e.id = c.outputDataTypes JOIN STRING_IDS z ON z.id = c.outputShapes"""
_TRANSFERS = """SELECT n.value, h.value, g.value, m.planeId, t.startNs, t.endNs - t.startNs, 1, t.streamId, t.taskId,
    t.contextId, 0, m.srcRank, m.dstRank, p.name, m.size, l.name
    FROM COMMUNICATION_TASK_INFO m JOIN TASK t USING (globalTaskId) JOIN COMMUNICATION_OP c USING (opId)
    JOIN STRING_IDS n ON n.id = c.opName JOIN STRING_IDS h ON h.id = m.taskType JOIN STRING_IDS g ON g.id = m.groupName
    JOIN ENUM_HCCL_TRANSPORT_TYPE p ON p.id = m.transportType JOIN ENUM_HCCL_LINK_TYPE l ON l.id = m.linkType"""
_COLLECTIVES = """SELECT n.value, o.value, c.startNs, c.endNs, d.name, a.value, c.count, g.value, c.connectionId
    FROM COMMUNICATION_OP c JOIN STRING_IDS n ON n.id = c.opName JOIN STRING_IDS o ON o.id = c.opType
    JOIN ENUM_HCCL_DATA_TYPE d ON d.id = c.dataType JOIN STRING_IDS a ON a.id = c.algType
    JOIN STRING_IDS g ON g.id = c.groupName"""
_CALLS = """SELECT n.value, n.value, e.name, a.globalTid & 4294967295, n.value, a.startNs, a.endNs, a.connectionId
    FROM CANN_API a JOIN STRING_IDS n ON n.id = a.name JOIN ENUM_API_TYPE e ON e.id = a.type"""
_COUNTERS = """SELECT t.streamId, t.taskId, t.contextId, n.value, p.value FROM TASK_PMU_INFO p
    JOIN TASK t USING (globalTaskId) JOIN STRING_IDS n ON n.id = p.name"""
_OPERATOR_COLUMNS = (
    "model_id, op_name, stream_id, task_id, block_dim, mix_block_dim, op_state, task_type, op_type, index_id, "
    "thread_id, timestamp, batch_id, tensor_num, input_formats, input_data_types, input_shapes, output_formats, "
    "output_data_types, output_shapes, device_id, context_id, op_flag, hashid"
)


def leave_stages(raw: Path, exported: Path, *, newer: bool) -> None:
    """Write `host/sqlite` and `device_N/sqlite` below the capture in `raw`, from the database in `exported`."""
    (prof,) = raw.glob("PROF_*")
    (database,) = exported.rglob("ascend_pytorch_profiler_*.db")
    pair = json.loads((prof / "host" / "start_info").read_text("utf-8"))
    ahead = int(Fraction(pair["collectionTimeBegin"]) * 1000) - int(pair["clockMonotonicRaw"])
    with closing(sqlite3.connect(database)) as con:
        rows = {name: con.execute(query).fetchall() for name, query in (
            ("tasks", _TASKS), ("operators", _OPERATORS), ("transfers", _TRANSFERS), ("collectives", _COLLECTIVES),
            ("calls", _CALLS), ("counters", _COUNTERS))}  # fmt: skip
    host, device = prof / "host" / "sqlite", next(prof.glob("device_*")) / "sqlite"
    host.mkdir()
    device.mkdir()
    _write(
        device / "ascend_task.db", "AscendTask",
        "model_id, index_id, stream_id, task_id, context_id, batch_id, start_time NUMERIC, duration NUMERIC, "
        "host_task_type, device_task_type, connection_id",
        [(*row[:6], row[6] - ahead, *row[7:]) for row in rows["tasks"]],
    )  # fmt: skip
    columns = _OPERATOR_COLUMNS.replace("block_dim", "block_num") + ", block_dim" if newer else _OPERATOR_COLUMNS
    operators = [(*row, "1,1,1") for row in rows["operators"]] if newer else rows["operators"]
    _write(host / "ge_info.db", "TaskInfo", columns, operators)
    names = {row[2]: str(4_000_000 + place) for place, row in enumerate(rows["transfers"])}
    transfers = [(*row[:2], names[row[2]], row[3], row[4] - ahead, *row[5:]) for row in rows["transfers"]]
    told = ("op_name, hccl_name, group_name, plane_id, timestamp NUMERIC, duration REAL, is_master, stream_id, "
            "task_id, context_id, batch_id, local_rank, remote_rank, transport_type, size, link_type")  # fmt: skip
    told = told.replace("op_name", "op_id") if newer else told
    _write(device / "hccl_single_device.db", "HCCLTaskSingleDevice", told, transfers)
    spans = 'start, "end", ' if newer else ""
    collectives = [
        (*row[:2], *((row[2] - ahead, row[3] - ahead) if newer else ()), *row[4:7], names.get(row[7], row[7]), row[8])
        for row in rows["collectives"]
    ]
    _write(
        device / "hccl_single_device.db", "HCCLOpSingleDevice",
        f"op_name, op_type, {spans}data_type, alg_type, count, group_name, connection_id",
        collectives,
    )  # fmt: skip
    _write(host / "ge_hash.db", "GeHashInfo", "hash_key, hash_value", [(key, name) for name, key in names.items()])
    _write_calls(host, prof, rows["calls"], ahead)
    _write_counters(device, rows["counters"])


def _write_calls(host: Path, prof: Path, calls: Sequence[tuple[object, ...]], ahead: int) -> None:
    processor = json.loads((prof / "host" / "info.json").read_text("utf-8"))["CPU"][0]
    log = (prof / "host" / "host_start.log").read_text("utf-8").partition("[Device]")[0]
    pair = {line.partition(":")[0].strip(): int(line.partition(":")[2]) for line in log.splitlines() if ":" in line}

    def count(unix: object) -> int:
        assert isinstance(unix, int)
        since = unix - ahead - pair["clock_monotonic_raw"]
        return pair["cntvct"] + round(since * float(processor["Frequency"]) / 1000)

    _write(
        host / "api_event.db", "ApiData", "struct_type, id, level, thread_id, item_id, start, \"end\", connection_id",
        [(*row[:5], count(row[5]), count(row[6]), row[7]) for row in calls],
    )  # fmt: skip


def _write_counters(device: Path, counters: Sequence[tuple[object, ...]]) -> None:
    names = sorted({str(row[3]) for row in counters})
    wide: dict[tuple[object, ...], dict[str, float]] = {}
    for *key, name, value in counters:
        assert isinstance(value, int | float)
        wide.setdefault(tuple(key), {})[str(name)] = value / 1000 if str(name).endswith("_time") else value
    columns = ", ".join(["stream_id", "task_id", "subtask_id", "batch_id", *(f'"{name}"' for name in names)])
    rows = [(*key, 0, *(own.get(name) for name in names)) for key, own in wide.items()]
    _write(device / "metric_summary.db", "MetricSummary", columns, rows)


def _write(path: Path, table: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute(f"CREATE TABLE {table} ({columns})")
        if rows:
            con.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
        con.commit()
