"""A report of NVIDIA Nsight Systems as SQLite (`nsys export --type sqlite`): kernels, copies, calls and NVTX ranges.

Its layout is that of the tool's "SQLite Schema Reference". Traps: tables are only there where something was recorded;
names are numbers into `StringIds`; `globalTid` and `globalPid` hold process and thread, 24 bits each; one report may
hold several processes, which are several ranks; a captured graph may be one row of `CUPTI_ACTIVITY_KIND_GRAPH_TRACE`
in place of its kernels; PyTorch's operators are there where the program ran under `emit_nvtx`, as NVTX ranges with
their shapes in the text; calls end in the version of their function (`cudaLaunchKernel_v7000`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.nesting import enclosing
from hermes.knowledge.blocking import OF_GRAPH
from hermes.knowledge.collectives import of_kernel
from hermes.knowledge.vendors import vendor_of
from hermes.profiles.read import messages
from hermes.profiles.read.assign_rows_to_steps import own_device, own_host
from hermes.profiles.read.glance import looked_into, stored_columns
from hermes.profiles.read.kineto.periods import found_steps
from hermes.profiles.read.nest import nest
from hermes.profiles.read.query import keep
from hermes.profiles.read.sink import Sink
from hermes.profiles.read.source import Source, legible

if TYPE_CHECKING:
    from hermes.profiles.read.ascend.db.store import Database

_KERNEL, _GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COPY, _SET, _CALL = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("MEMCPY", "MEMSET", "RUNTIME"))
_NVTX, _STRINGS = "NVTX_EVENTS", "StringIds"
_DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
# CUpti_ActivityMemcpyKind.
_KINDS = {
    1: ("HtoD", "h2d"), 2: ("DtoH", "d2h"), 3: ("HtoA", "h2d"), 4: ("AtoH", "d2h"), 5: ("AtoA", "d2d"),
    6: ("AtoD", "d2d"), 7: ("DtoA", "d2d"), 8: ("DtoD", "d2d"), 9: ("HtoH", "h2h"), 10: ("PtoP", "p2p"),
}  # fmt: skip
_RANGES, _MARK, _DOMAIN = (59, 60, 70, 71), 34, 75
"""Kinds of NVTX events (`ENUM_NSYS_EVENT_TYPE`): ranges, pushed or started; marks; the making of a domain."""
_STEP = r"(?i)^(?:train(?:ing)?[ _-]?)?(?:profilerstep|iteration|iter|step)[ :#_-]*(\d{1,9})$"
_OPERATOR = r"^(aten::[\w:.]+|c10d::\w+|record_param_comms)(?:,|$)"
_SEQUENCE, _SIZES = r", seq = (\d{1,18})", r", sizes = \[(.*)\]"
_VERSION = r"_v\d+(?:_ptsz|_ptds)?$"
_FEWEST_STEPS = 2
_MOST_PROCESSES = 4_096


class NsysReader:
    """Finds exported reports by their tables; each of their processes that used a device is a rank."""

    name: ClassVar[str] = "nsys"
    version: ClassVar[int] = 1

    def claim(self, files: Sequence[Path]) -> list[Source]:
        """A source for each process with work on a device."""
        found = []
        for path in sorted(files):
            if path.suffix in (".sqlite", ".db", ".sqlite3"):
                pids = _processes(path)
                found += [
                    Source(
                        reader=self.name, format="nsys", root=path, files=(path,), rank=None, process=f"{path}:{pid}",
                        capture=legible(path.stem) + (f" process {pid}" if len(pids) > 1 else ""),
                    )
                    for pid in pids
                ]  # fmt: skip
        return found

    def prepare(self, source: Source, cache: Path, tell: Callable[[str], None]) -> Source:
        """The source itself: a report is read as it lies there."""
        return source

    def read(self, source: Source, rank: int, sink: Sink) -> None:
        """Write the tables of one process."""
        from hermes.profiles.read.ascend.db.store import opened

        path, pid = source.files[0], int(source.process.rpartition(":")[2])
        with opened(path, sink) as database:
            strings = database.fetch(_STRINGS, {"id": "int", "value": "text"})
            calls = _calls(database, strings, pid)
            ranges = _ranges(database, strings, pid)
            tasks = _tasks(database, strings, pid)
            chips, host_name, epoch = _about(database)
        if not tasks.height and not calls.height:
            raise TraceFormatError(path, "no work of a device is in the report", lost="this report",
                                   hint="record with nsys profile --trace=cuda,nvtx")  # fmt: skip
        step = _steps(ranges, calls, tasks, sink)
        host = own_host(step, nest(pl.concat([ranges, calls], how="diagonal")))
        sink.frame("host_op", host)
        _device(tasks, host, step, sink)
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


def _processes(path: Path) -> list[int]:
    """The processes of a report with work on a device; none for any other file."""
    from hermes.profiles.read.ascend.db.store import looks_like

    if not looks_like(path):
        return []
    found: set[int] = set()
    try:
        with looked_into(path) as con:
            if not stored_columns(con, _STRINGS):
                return []
            for table in (_KERNEL, _COPY, _GRAPH):
                if "globalPid" in stored_columns(con, table):
                    query = f'SELECT DISTINCT globalPid >> 24 & 16777215 FROM "{table}" LIMIT {_MOST_PROCESSES}'
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
    """The rows with `name`: the text of the first of these columns that says one."""
    for place, column in enumerate(columns):
        texts = strings.rename({"id": column, "value": f"_{place}"})
        rows = rows.join(texts, on=column, how="left", maintain_order="left")
    said = [f"_{place}" for place in range(len(columns))]
    return rows.with_columns(pl.coalesce(*said, pl.lit("unknown")).alias("name")).drop(said)


def _calls(database: Database, strings: pl.DataFrame, pid: int) -> pl.DataFrame:
    """Calls of runtime and driver."""
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
    """NVTX ranges and marks; PyTorch's operators among them as such."""
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
    operator = text.str.extract(_OPERATOR)
    return rows.select(
        pl.when(operator.is_not_null()).then(pl.lit("op")).otherwise(pl.lit("mark")).alias("kind"),
        pl.coalesce(operator, text).alias("name"), "pid", "tid", pl.col("start").alias("start_ns"),
        (pl.col("end") - pl.col("start")).alias("dur_ns"), "domain",
        text.str.extract(_SEQUENCE).cast(pl.Int64, strict=False).alias("sequence"),
        # `[[8, 16], [16, 32]]` is `8,16;16,32`.
        text.str.extract(_SIZES).str.replace_all(r"\], ?\[", ";").str.replace_all(r"[\[\] ]", "").alias("shapes"),
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
    found = {name: of_kernel(name) for name in rows.filter(pl.col("what") == "kernel")["name"].unique().to_list()}
    meets = {name: made.op for name, made in found.items() if made is not None}
    library = {name: made.library for name, made in found.items() if made is not None}
    return rows.select(
        "what", "name", pl.col("deviceId").alias("device_id"), pl.col("streamId").alias("stream"),
        pl.col("start").alias("start_ns"), (pl.col("end") - pl.col("start")).alias("dur_ns"),
        pl.col("correlationId").alias("correlation"), "blocks", "bytes", "direction",
        pl.col("name").replace_strict(meets, default=None, return_dtype=pl.String).alias("op"),
        pl.col("name").replace_strict(library, default=None, return_dtype=pl.String).alias("library"),
    ).sort("start_ns", "stream", "dur_ns", "correlation", maintain_order=True)  # fmt: skip


def _steps(ranges: pl.DataFrame, calls: pl.DataFrame, tasks: pl.DataFrame, sink: Sink) -> pl.DataFrame:
    """The table `step`, also returned: ranges that are numbered as steps, else what the launches repeat."""
    number = pl.col("name").str.extract(_STEP).cast(pl.Int64, strict=False)
    marked = ranges.with_columns(number.alias("step")).drop_nulls("step").filter(pl.col("dur_ns") > 0)
    # Of ranges one in another of the same number the longest counts.
    marked = marked.sort("dur_ns", descending=True).unique("step", keep="first", maintain_order=True).sort("start_ns")
    if marked.height >= _FEWEST_STEPS:
        step = marked.select("step", "start_ns", "dur_ns", "name")
    else:
        with closing(sink.connect()) as con:
            rows = [
                own.select(what, "name", pl.col("start_ns").alias("ts_ns"), "dur_ns", correlation)
                for own, what, correlation in (
                    (ranges, pl.col("kind").alias("what"), pl.lit(None, pl.Int64).alias("correlation")),
                    (calls, pl.col("kind").alias("what"), pl.col("correlation")),
                    (tasks, pl.col("what"), pl.col("correlation")),
                )
            ]
            keep(con, "event", pl.concat(rows))
            step = found_steps(con)
    sink.frame("step", step)
    return step


def _device(tasks: pl.DataFrame, host: pl.DataFrame, step: pl.DataFrame, sink: Sink) -> None:
    """The tables `kernel` and `comm_op`: each task with the call that launched it, and the operator around that."""
    calls = host.filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.col("correlation").is_not_null())
    calls = calls.sort("start_ns").unique("correlation", keep="first", maintain_order=True)
    operators = host.filter(pl.col("kind") == "op")
    at = enclosing(operators, calls)
    launched = calls.select(
        "correlation", pl.col("start_ns").alias("launch_ns"),
        pl.col("name").str.ends_with("GraphLaunch").alias("graph"),
    ).with_columns(
        operators["name"].gather(at).alias("type"), operators["shapes"].gather(at).alias("input_shapes"),
        operators["op_id"].gather(at).alias("call"),
    )  # fmt: skip
    rows = own_device(step, tasks.join(launched, on="correlation", how="left", maintain_order="left"))
    comm, kernel = pl.col("op").is_not_null(), pl.col("what") == "kernel"
    part = pl.when(comm).then(pl.lit("comm")).when(kernel)
    rows = rows.with_columns(
        part.then(pl.lit("compute")).otherwise(pl.lit("copy")).alias("component"),
        part.then(pl.lit("sm")).otherwise(pl.lit("copy")).alias("unit"),
        pl.when(pl.col("graph")).then(pl.lit(OF_GRAPH)).otherwise("what").alias("task_type"),
        pl.when(kernel).then("type").alias("type"), pl.when(kernel).then("input_shapes").alias("input_shapes"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("kernel_id"),
    )  # fmt: skip
    sink.frame("kernel", rows.drop("what", "op", "library", "graph"))
    comms = rows.filter(comm).select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("comm_id"), "name", "op", "library", "stream", "start_ns",
        "dur_ns", "step", "correlation", "launch_ns",
    )  # fmt: skip
    sink.frame("comm_op", comms)


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
    """What such a report has not got."""
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
