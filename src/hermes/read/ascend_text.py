"""The text export of Ascend's profilers: JSON and CSV files of one capture to tables."""

from __future__ import annotations

import re

import duckdb
import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.read.ascend_comm import read_operations, read_sums
from hermes.read.ascend_csv import read_csvs
from hermes.read.ascend_folder import Capture
from hermes.read.ascend_info import Job, read_info
from hermes.read.ascend_kernel import read_kernels
from hermes.read.ascend_trace import read_trace
from hermes.read.query import one
from hermes.read.sink import Sink
from hermes.read.source import legible
from hermes.tables import TABLES, empty

# The profiler's default name of a worker is {host}_{pid}.
_WORKER = re.compile(r"^(.+)_\d+_\d{14,17}_ascend_(?:pt|ms)$")
_UNIX_NS = 10**17
"""Times beyond are nanoseconds since 1970; smaller ones count from the start of the capture."""


def read_text(capture: Capture, rank: int, sink: Sink) -> None:
    """Write every table that the text export holds; raises `TraceFormatError` when no file of it can be read."""
    job = read_info(capture, rank, sink)
    step, con, first_ns = empty(TABLES["step"]).drop("rank"), None, None
    try:
        for path in capture.traces[:1]:
            try:
                trace = read_trace(path, sink)
            except TraceFormatError as broken:
                if not (capture.kernels or capture.csvs):
                    raise
                sink.note("degraded", broken.what, where=broken.where, lost=broken.lost, hint=broken.hint)
                continue
            step, con, first_ns = trace.step, trace.con, trace.first_ns
        if len(capture.traces) > 1:
            sink.note("info", f"{len(capture.traces)} trace files in one capture; read {capture.traces[0].name}")
        traced = con is not None
        con = con or sink.connect()
        _rest(con, capture, step, job, rank, sink, traced=traced)
    finally:
        if con:
            con.close()
    _absent(capture, sink)
    sink.frame("rank", rank_row(capture, job, first_ns, "ascend-text"))


def _rest(
    con: duckdb.DuckDBPyConnection,
    capture: Capture,
    step: pl.DataFrame,
    job: Job,
    rank: int,
    sink: Sink,
    *,
    traced: bool,
) -> None:
    read_csvs(con, capture.csvs, sink, mindspore=capture.mindspore)
    read_kernels(con, capture.kernels, step, sink, traced=traced)
    read_sums(capture.jsons, sink)
    read_operations(con, step, job, rank, sink, traced=traced)
    if traced and sink.read("kernel").height and not one(con, "SELECT count(*) FROM task")[0]:
        sink.note(
            "degraded",
            "no device task is in the trace, though kernel_details.csv has kernels",
            where=str(capture.traces[0]),
            lost="copies, streams, launches and tasks of communication",
            hint="was the job killed while the profiler was writing?",
        )


def rank_row(capture: Capture, job: Job, first_ns: int | None, format_name: str) -> pl.DataFrame:
    """The row of the table `rank`."""
    row = {
        "capture": capture.stamp,
        "format": format_name,
        "framework": "mindspore" if capture.mindspore else "pytorch",
        "vendor": "ascend",
        "device_id": job.device_id,
        "host": match.group(1) if (match := _WORKER.match(legible(capture.root.name))) else None,
        "level": job.level,
        "world_size": job.world_size,
        "epoch_ns": 0 if first_ns is not None and first_ns > _UNIX_NS else None,
        **job.coordinates,
    }
    return pl.DataFrame([row], infer_schema_length=None)


def _absent(capture: Capture, sink: Sink) -> None:
    """Say what the missing files take away; a profile of Level_none has no device data and is whole."""
    if not capture.traces:
        sink.note(
            "degraded",
            "trace_view.json is missing",
            where=str(capture.root),
            lost="host calls, copies, tasks of communication, arrows and counters",
            hint="copy the whole folder",
        )
    elif not capture.kernels and sink.read("kernel").height:
        sink.note(
            "degraded",
            "kernel_details.csv is missing",
            where=str(capture.root),
            lost="operator types, shapes and units of kernels",
            hint="copy the whole folder",
        )
    elif not sink.read("host_op").height and sink.read("kernel").height:
        sink.note(
            "degraded",
            "no host call is in the trace",
            where=str(capture.traces[0]),
            lost="causes on the host",
            hint="profile with activities CPU and NPU; was the job killed while the profiler was writing?",
        )
    if not sink.read("kernel").height and not sink.read("comm_op").height:
        sink.note(
            "degraded",
            "no device task was recorded",
            where=str(capture.root),
            lost="the device side of every step",
            hint="profile with activities CPU and NPU, at Level0 or above",
        )
    names = {path.name for path in capture.jsons}
    summed = sink.read("statistic").filter(pl.col("source") == "op").height > 0
    if summed and sink.read("comm_op").height and "communication.json" not in names:
        sink.note(
            "degraded",
            "communication.json is missing",
            where=str(capture.root),
            lost="the profiler's own split of communication",
            hint="copy the whole folder",
        )
