"""Reads reports of NVIDIA Nsight Systems in SQLite (`nsys export --type sqlite`): kernels, copies, calls, NVTX ranges.

The layout is that of the tool's "SQLite Schema Reference". Traps: a table exists only if something was recorded. Names
are numbers into `StringIds`. `globalTid` and `globalPid` hold process and thread, 24 bits each. One report may hold
several processes, which are several ranks. A captured graph may be one row of `CUPTI_ACTIVITY_KIND_GRAPH_TRACE` in
place of its kernels. PyTorch's operators exist if the program ran under `emit_nvtx`: as NVTX ranges with shapes in the
text. Names of calls end in the version of their function (`cudaLaunchKernel_v7000`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.knowledge.vendor_traits import vendor_of
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.peek_sqlite import looked_into, stored_columns
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.runtime_tables import as_work, said_by_range, write_tables
from hermes.profiles.read.table_sink import Sink

if TYPE_CHECKING:
    from hermes.profiles.read.ascend.db.sqlite_database import Database

_KERNEL, _GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COPY, _SET, _CALL = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("MEMCPY", "MEMSET", "RUNTIME"))
_NVTX, _STRINGS = "NVTX_EVENTS", "StringIds"
_OF_DEVICE = dict.fromkeys((_KERNEL, _COPY, _GRAPH), "globalPid")
_OF_HOST = dict.fromkeys((_NVTX, _CALL), "globalTid")
_DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
# Values of CUpti_ActivityMemcpyKind.
_KINDS = {
    1: ("HtoD", "h2d"), 2: ("DtoH", "d2h"), 3: ("HtoA", "h2d"), 4: ("AtoH", "d2h"), 5: ("AtoA", "d2d"),
    6: ("AtoD", "d2d"), 7: ("DtoA", "d2d"), 8: ("DtoD", "d2d"), 9: ("HtoH", "h2h"), 10: ("PtoP", "p2p"),
}  # fmt: skip
_RANGES, _MARK, _DOMAIN = (59, 60, 70, 71), 34, 75
"""Kinds of NVTX events (`ENUM_NSYS_EVENT_TYPE`): ranges, pushed or started; marks; the making of a domain."""
_VERSION = r"_v\d+(?:_ptsz|_ptds)?$"
_MOST_PROCESSES = 4_096


class NsysReader:
    """Finds exported reports by their tables; each process of a report that used a device is a rank."""

    name: ClassVar[str] = "nsys"
    version: ClassVar[int] = 1

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """A source for each process with work on a device; if none has any, for each with ranges or calls."""
        found = []
        for path in sorted(files):
            if path.suffix in (".sqlite", ".db", ".sqlite3"):
                pids = _processes(path, _OF_DEVICE) or _processes(path, _OF_HOST)
                found += [
                    CaptureSource(
                        reader=self.name, format="nsys", root=path, files=(path,), rank=None, process=f"{path}:{pid}",
                        capture=legible(path.stem) + (f" process {pid}" if len(pids) > 1 else ""),
                    )
                    for pid in pids
                ]  # fmt: skip
        return found

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source itself: a report needs no preparation."""
        return source

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write the tables of one process."""
        from hermes.profiles.read.ascend.db.sqlite_database import opened

        path, pid = source.files[0], int(source.process.rpartition(":")[2])
        with opened(path, sink) as database:
            strings = database.fetch(_STRINGS, {"id": "int", "value": "text"})
            calls = _calls(database, strings, pid)
            ranges = _ranges(database, strings, pid)
            tasks = _tasks(database, strings, pid)
            chips, host_name, epoch = _about(database)
        if not (tasks.height or calls.height or ranges.height):
            raise TraceFormatError(path, refusals.NO_WORK_IN_REPORT, lost=refusals.LOST_REPORT, hint=refusals.DO_NSYS)
        if not tasks.height:
            # Nothing else tells what the host did: a range is the work inside it.
            ranges = as_work(ranges)
            sink.note(
                "degraded", refusals.NO_WORK_IN_REPORT, where=str(path), lost=messages.LOST_DEVICE,
                hint=refusals.DO_NSYS,
            )  # fmt: skip
        host = write_tables(ranges, calls, tasks, sink)
        devices = tasks["device_id"].unique().to_list()
        chip = chips.get(devices[0]) if len(devices) == 1 else None
        vendor, family = vendor_of(chip or "")
        row = {
            "capture": source.capture, "format": source.format, "vendor": vendor or "nvidia", "chip": chip or family,
            "device_id": devices[0] if len(devices) == 1 else None, "host": host_name, "epoch_ns": epoch,
        }  # fmt: skip
        overrides = {"chip": pl.String(), "host": pl.String(), "device_id": pl.Int64(), "epoch_ns": pl.Int64()}
        sink.frame("rank", pl.DataFrame([row], schema_overrides=overrides))
        _note(path, host, tasks, sink)


def _processes(path: Path, tables: Mapping[str, str]) -> list[int]:
    """The processes of a report with rows in one of these tables; empty for any other file.

    `tables` gives for each table its column with the number of the process.
    """
    from hermes.profiles.read.ascend.db.sqlite_database import looks_like

    if not looks_like(path):
        return []
    found: set[int] = set()
    try:
        with looked_into(path) as con:
            if not stored_columns(con, _STRINGS):
                return []
            for table, column in tables.items():
                if column in stored_columns(con, table):
                    query = f'SELECT DISTINCT {column} >> 24 & 16777215 FROM "{table}" LIMIT {_MOST_PROCESSES}'
                    found |= {pid for (pid,) in con.execute(query) if isinstance(pid, int)}
    except (OSError, sqlite3.Error):
        return []
    return sorted(found)


def _of_process(rows: pl.DataFrame, column: str, pid: int) -> pl.DataFrame:
    """The rows of a process, with its threads."""
    number = pl.col(column)
    own = rows.with_columns((number // (1 << 24) % (1 << 24)).alias("pid"), (number % (1 << 24)).alias("tid"))
    return own.filter((pl.col("pid") == pid) & (pl.col("end") >= pl.col("start"))).drop(column)


def _named(rows: pl.DataFrame, strings: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The rows with `name`: the text of the first of these columns that has one."""
    for place, column in enumerate(columns):
        texts = strings.rename({"id": column, "value": f"_{place}"})
        rows = rows.join(texts, on=column, how="left", maintain_order="left")
    said = [f"_{place}" for place in range(len(columns))]
    return rows.with_columns(pl.coalesce(*said, pl.lit("unknown")).alias("name")).drop(said)


def _calls(database: Database, strings: pl.DataFrame, pid: int) -> pl.DataFrame:
    """The calls of runtime and driver of one process."""
    wanted = {name: "int" for name in ("start", "end", "globalTid", "correlationId", "nameId")}
    rows = _of_process(database.fetch(_CALL, wanted), "globalTid", pid)  # type: ignore[arg-type]
    rows = _named(rows, strings, "nameId").with_columns(pl.col("name").str.replace(_VERSION, ""))
    driver = pl.col("name").str.contains("^cu[A-Z]")
    return rows.select(
        pl.when(driver).then(pl.lit("driver")).otherwise(pl.lit("runtime")).alias("kind"), "name", "pid", "tid",
        pl.col("start").alias("start_ns"), (pl.col("end") - pl.col("start")).alias("dur_ns"),
        pl.col("correlationId").alias("correlation"),
    )  # fmt: skip


def _ranges(database: Database, strings: pl.DataFrame, pid: int) -> pl.DataFrame:
    """The NVTX ranges and marks of one process; ranges of PyTorch's operators become operators."""
    wanted = {name: "int" for name in ("start", "end", "eventType", "globalTid", "textId", "domainId")}
    rows = database.fetch(_NVTX, {**wanted, "text": "text"})  # type: ignore[dict-item]
    domains = rows.filter(pl.col("eventType") == _DOMAIN).select(
        "domainId", pl.col("text").alias("domain"), (pl.col("globalTid") // (1 << 24)).alias("owner")
    ).unique(["domainId", "owner"], keep="first", maintain_order=True)  # fmt: skip
    rows = rows.filter(pl.col("eventType").is_in([*_RANGES, _MARK]))
    at = pl.when(pl.col("eventType") == _MARK).then("start").otherwise("end")
    rows = rows.with_columns(at.alias("end"), (pl.col("globalTid") // (1 << 24)).alias("owner")).drop_nulls("end")
    rows = rows.join(domains, on=["domainId", "owner"], how="left", maintain_order="left")
    rows = _named(_of_process(rows, "globalTid", pid), strings, "textId")
    text = pl.coalesce("text", "name")
    return rows.select(
        *said_by_range(text), "pid", "tid", pl.col("start").alias("start_ns"),
        (pl.col("end") - pl.col("start")).alias("dur_ns"), "domain",
    )  # fmt: skip


def _tasks(database: Database, strings: pl.DataFrame, pid: int) -> pl.DataFrame:
    """Kernels, whole graphs, copies and sets of one process by start."""
    plain = dict.fromkeys(_DEVICE, "int")
    grid = ("gridX", "gridY", "gridZ")
    kernels = database.fetch(_KERNEL, {**plain, **dict.fromkeys((*grid, "demangledName", "shortName"), "int")})  # type: ignore[dict-item]
    kernels = _named(kernels, strings, "demangledName", "shortName").with_columns(
        (pl.col("gridX") * pl.col("gridY") * pl.col("gridZ")).alias("blocks"), pl.lit("kernel").alias("what")
    )
    graphs = database.fetch(_GRAPH, plain).with_columns(  # type: ignore[arg-type]
        pl.lit("kernel").alias("what"), pl.lit("CUDA graph").alias("name")
    )
    copies = database.fetch(_COPY, {**plain, "bytes": "int", "copyKind": "int"})  # type: ignore[dict-item]
    kind = {number: word for number, (word, _) in _KINDS.items()}
    way = {number: direction for number, (_, direction) in _KINDS.items()}
    copies = copies.with_columns(
        pl.lit("memcpy").alias("what"),
        (pl.lit("Memcpy ") + pl.col("copyKind").replace_strict(kind, default="", return_dtype=pl.String)).alias("name"),
        pl.col("copyKind").replace_strict(way, default=None, return_dtype=pl.String).alias("direction"),
    )
    sets = database.fetch(_SET, {**plain, "bytes": "int"}).with_columns(  # type: ignore[dict-item]
        pl.lit("memset").alias("what"), pl.lit("Memset").alias("name"), pl.lit("set").alias("direction")
    )
    rows = _of_process(pl.concat([kernels, graphs, copies, sets], how="diagonal"), "globalPid", pid)
    return rows.select(
        "what", "name", pl.col("deviceId").alias("device_id"), pl.col("streamId").alias("stream"),
        pl.col("start").alias("start_ns"), (pl.col("end") - pl.col("start")).alias("dur_ns"),
        pl.col("correlationId").alias("correlation"), "blocks", "bytes", "direction",
    )  # fmt: skip


def _about(database: Database) -> tuple[dict[int, str], str | None, int | None]:
    """Names of the devices, the host, and the moment from which times count."""
    gpus = database.fetch("TARGET_INFO_GPU", {"id": "int", "name": "text"})
    started = database.fetch("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": "int"})["utcEpochNs"].drop_nulls()
    system = database.fetch("TARGET_INFO_SYSTEM_ENV", {"name": "text", "value": "text"})
    host = system.filter(pl.col("name") == "Hostname")["value"].drop_nulls()
    return (
        dict(gpus.drop_nulls().iter_rows()),
        legible(host[0]) if len(host) else None,
        int(started[0]) if len(started) else None,
    )


def _note(path: Path, host: pl.DataFrame, tasks: pl.DataFrame, sink: Sink) -> None:
    """Notes on what a report of this profiler lacks."""
    if not (host["kind"] == "op").any():
        sink.note(
            "info", messages.NO_OPERATOR, where=str(path),
            lost=messages.LOST_SHAPES,
            hint=messages.DO_NVTX,
        )  # fmt: skip
    if (tasks["name"] == "CUDA graph").any():
        sink.note(
            "degraded", messages.WHOLE_GRAPHS, where=str(path), lost=messages.LOST_GRAPH_KERNELS,
            hint=messages.DO_GRAPH_NODES,
        )  # fmt: skip
