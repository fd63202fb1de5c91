"""Reads the databases that an export leaves inside `PROF_*` (`host/sqlite`, `device_N/sqlite`) like an exported one.

CANN's `msprof` makes them from the binary records and its exports from them; CANN 9.2.0-beta.1 leaves nothing else.
Their layout is that of the public sources of msprof (`database.cpp`). Traps: device times are nanoseconds of the
monotonic clock and may have fractions. Host times are counts of the processor if `info.json` has its frequency.
`block_dim` became a text when `block_num` came. Newer files give a collective its start and end, older ones name it in
each of its tasks. A group may be a number that `ge_hash.db` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.knowledge.ascend_codes import NONE_32
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import Capture, prof_folders, rank_number, stage_of
from hermes.profiles.read.ascend.db.sqlite_database import TYPES, Database, Kind, opened
from hermes.profiles.read.ascend.raw.record_clock import Clock, host_facts
from hermes.profiles.read.ascend.raw.stage_tables import collectives, computes, counters, schedules, times
from hermes.profiles.read.table_sink import Sink

_TASK: dict[str, Kind] = {
    "stream_id": "int", "task_id": "int", "context_id": "int", "batch_id": "int", "host_task_type": "text",
    "device_task_type": "text", "connection_id": "int",
}  # fmt: skip
_CALL: dict[str, Kind] = {
    "struct_type": "text", "id": "text", "level": "text", "thread_id": "int", "item_id": "text", "start": "int",
    "end": "int", "connection_id": "int",
}  # fmt: skip
_RANGE: dict[str, Kind] = {"tid": "int", "start_time": "int", "end_time": "int", "message": "text"}
_LEVELS = {"acl": 20000, "model": 15000, "node": 10000, "communication": 5500, "hccl": 5500, "runtime": 5000}
_UNLINKED_MARK = 4_000_000_000
_CHIPS = {"5": "Ascend910B"}
"""Names of chips by `platform_version` of `info.json`, as the export names them."""
_TID = 1 << 32


@dataclass(slots=True, kw_only=True)
class Stages:
    """Tables of the exported layout held in memory, with the reading interface of a database."""

    path: Path
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)
    _texts: dict[str, int] = field(default_factory=dict)

    @property
    def tables(self) -> frozenset[str]:
        """The tables that have rows."""
        return frozenset(self.frames)

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; empty if there is no such table."""
        return frozenset(self.frames[table].columns) if table in self.frames else frozenset()

    def fetch(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        """The rows of a table with exactly these columns; a missing column is null."""
        rows = self.frames.get(table, pl.DataFrame())
        cells = [
            pl.col(name).cast(TYPES[kind], strict=False)
            if name in rows.columns
            else pl.lit(None, TYPES[kind]).alias(name)
            for name, kind in columns.items()
        ]
        return (
            rows.select(cells)
            if rows.height
            else pl.DataFrame(schema={name: TYPES[kind] for name, kind in columns.items()})
        )

    def add(self, table: str, rows: pl.DataFrame, names: Iterable[str] = ()) -> None:
        """Take the rows of a table; texts in the columns `names` become ids of STRING_IDS."""
        if not rows.height:
            return
        ids = [self._ids(rows[name]) for name in names]
        self.frames[table] = rows.with_columns(ids)
        self.frames["STRING_IDS"] = pl.DataFrame({"id": list(self._texts.values()), "value": list(self._texts)})

    def enumerate(self, table: str, *columns: pl.Series) -> list[pl.Series]:
        """Convert texts to the numbers of an enumeration of that name, which is added."""
        words = sorted({word for column in columns for word in column.drop_nulls().unique().to_list()})
        if words:
            self.add(table, pl.DataFrame({"id": range(len(words)), "name": words}))
        return [one.replace_strict(words, range(len(words)), default=None, return_dtype=pl.Int64) for one in columns]

    def _ids(self, texts: pl.Series) -> pl.Series:
        for text in texts.drop_nulls().unique(maintain_order=True).to_list():
            self._texts.setdefault(text, len(self._texts))
        known = texts.drop_nulls().unique(maintain_order=True).to_list()
        return texts.replace_strict(known, [self._texts[text] for text in known], default=None, return_dtype=pl.Int64)


def staged(capture: Capture, clock: Clock, sink: Sink) -> Stages | None:
    """The device data in the databases inside the capture's `PROF_*`; None if they hold no task."""
    folders = [folder for folder in prof_folders(capture.raw) if any(stage_of(path) for path in capture.raw)]
    if not folders:
        return None
    stages = Stages(path=folders[0] / "host" / "sqlite")
    with ExitStack() as stack:
        host, devices = _open(capture, sink, stack)
        tasks = _tasks(devices, clock)
        if not tasks.height:
            return None
        pid = rank_number(host_facts(capture).get("pid")) or 0
        _add_tasks(stages, tasks, host)
        collectives(stages, tasks, devices, _hashes(host), clock.ahead_ns)
        counters(stages, tasks, devices)
        _add_calls(stages, host, clock, pid)
        _add_about(stages, capture, sorted(devices))
    return stages


def _open(capture: Capture, sink: Sink, stack: ExitStack) -> tuple[dict[str, Database], dict[int, dict[str, Database]]]:
    """The databases by name, for the host and for each device; a broken one is noted."""
    host: dict[str, Database] = {}
    devices: dict[int, dict[str, Database]] = {}
    for path in capture.raw:
        name = stage_of(path)
        if not name:
            continue
        side = path.parent.parent.name
        number = rank_number(side.removeprefix("device_"))
        try:
            database = stack.enter_context(opened(path, sink))
        except TraceFormatError as broken:
            sink.note("degraded", broken.what, where=broken.where, lost=messages.LOST_DATABASE, hint=broken.hint)
            continue
        (host if number is None else devices.setdefault(number, {})).setdefault(name, database)
    return host, devices


def _tasks(devices: Mapping[int, Mapping[str, Database]], clock: Clock) -> pl.DataFrame:
    """The tasks of all devices with the key `globalTaskId`."""
    parts = []
    for number, own in devices.items():
        if "ascend_task" not in own:
            continue
        rows = own["ascend_task"].fetch("AscendTask", _TASK)
        at = times(own["ascend_task"], "AscendTask", "start_time", "duration")
        parts.append(rows.hstack(at).with_columns(pl.lit(number, pl.Int64).alias("device_id")))
    if not parts:
        return pl.DataFrame()
    host, device = pl.col("host_task_type"), pl.col("device_task_type")
    rows = pl.concat(parts).filter(device.fill_null("") != "UNKNOWN").drop_nulls(["start_time", "duration"])
    start = pl.col("start_time") + clock.ahead_ns
    return rows.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("globalTaskId"), "device_id", "stream_id", "task_id",
        "batch_id", pl.col("context_id").fill_null(NONE_32), "connection_id",
        start.alias("startNs"), (start + pl.col("duration")).alias("endNs"),
        pl.when(host.is_in(["FFTS_PLUS", "UNKNOWN"]) | host.is_null()).then(device).otherwise(host).alias("taskType"),
    )  # fmt: skip


def _add_tasks(stages: Stages, tasks: pl.DataFrame, host: Mapping[str, Database]) -> None:
    renamed = {"device_id": "deviceId", "stream_id": "streamId", "task_id": "taskId", "context_id": "contextId",
               "connection_id": "connectionId"}  # fmt: skip
    stages.add("TASK", tasks.drop("batch_id").rename(renamed), ["taskType"])
    if "ge_info" in host:
        computes(stages, tasks, host["ge_info"])
        schedules(stages, tasks, host["ge_info"])


def _hashes(host: Mapping[str, Database]) -> dict[str, str]:
    """The names that numbers stand for, by number."""
    if "ge_hash" not in host:
        return {}
    rows = host["ge_hash"].fetch("GeHashInfo", {"hash_key": "text", "hash_value": "text"}).drop_nulls()
    return dict(rows.iter_rows())


def _add_calls(stages: Stages, host: Mapping[str, Database], clock: Clock, pid: int) -> None:
    """Add calls of CANN, and ranges of mstx."""
    thread = (pl.lit(pid * _TID, pl.Int64) + pl.col("tid")).alias("globalTid")
    if "api_event" in host:
        rows = host["api_event"].fetch("ApiData", _CALL).drop_nulls(["start", "end", "level"])
        level = pl.col("level").str.to_lowercase()
        name = (
            pl.when(level == "acl").then(pl.col("id"))
            .when(level.is_in(["communication", "hccl"])).then(pl.col("item_id")).otherwise(pl.col("struct_type"))
        )  # fmt: skip
        layer = level.replace_strict(_LEVELS, default=20000, return_dtype=pl.Int64).alias("type")
        rows = _on_host_clock(rows.rename({"thread_id": "tid"}), clock, "start", "end").select(
            "startNs", "endNs", thread, layer, pl.col("connection_id").alias("connectionId"),
            pl.coalesce(name, "struct_type").alias("name"),
        )  # fmt: skip
        stages.add("CANN_API", rows, ["name"])
    if "msproftx" in host:
        parts = [host["msproftx"].fetch(table, _RANGE) for table in ("MsprofTx", "MsprofTxEx")]
        rows = _on_host_clock(pl.concat(parts).drop_nulls(), clock, "start_time", "end_time")
        link = pl.lit(_UNLINKED_MARK, pl.Int64).alias("connectionId")
        stages.add("MSTX_EVENTS", rows.select("startNs", "endNs", thread, "message", link), ["message"])


def _on_host_clock(rows: pl.DataFrame, clock: Clock, start: str, end: str) -> pl.DataFrame:
    at = [np.asarray(rows[name].to_numpy(), dtype=np.int64) for name in (start, end)]
    return rows.with_columns(
        pl.Series(name, clock.of_cann(moments)) for name, moments in zip(("startNs", "endNs"), at, strict=True)
    )


def _add_about(stages: Stages, capture: Capture, devices: list[int]) -> None:
    facts = host_facts(capture)
    if chip := _CHIPS.get(str(facts.get("platform_version"))):
        stages.add("NPU_INFO", pl.DataFrame({"id": devices, "name": [chip] * len(devices)}))
    name, uid = (str(facts.get(key) or "")[:200] for key in ("hostname", "hostUid"))
    if name or uid:
        stages.add("HOST_INFO", pl.DataFrame({"hostUid": [uid], "hostName": [name]}))
