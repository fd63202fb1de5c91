"""Reads the text export of Ascend's profilers: JSON and CSV files of one capture into tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Executor

import duckdb
import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.message import Message
from hermes.base.usable_cores import spare_thread
from hermes.knowledge.recorders import MSPROF, Recorder, recorder_of
from hermes.model.tables import TABLES, empty
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import Capture
from hermes.profiles.read.ascend.csvs import read_csvs
from hermes.profiles.read.ascend.export_communication import read_operations, read_sums
from hermes.profiles.read.ascend.export_kernels import Details, read_details, read_kernels
from hermes.profiles.read.ascend.profiler_info import Job, read_info
from hermes.profiles.read.ascend.trace import Trace, read_trace
from hermes.profiles.read.assign_rows_to_steps import own_host
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.query import only_row
from hermes.profiles.read.reader_interface import legible
from hermes.profiles.read.table_sink import Sink

# The profiler's default name of a worker is {host}_{pid}.
_WORKER = re.compile(r"^(.+)_\d+_\d{14,17}_ascend_(?:pt|ms)$")
_UNIX_NS = 10**17
"""Larger times are nanoseconds since 1970; smaller ones count from the start of the capture."""


def read_text(capture: Capture, rank: int, sink: Sink) -> None:
    """Write every table that the text export holds; raises `TraceFormatError` if no file of it can be read."""
    job = read_info(capture, sink)
    csvs, kernels, sums = (sink.another() for _ in range(3))
    with spare_thread() as pool:
        # These files do not depend on the trace: they are read in parallel with it.
        reading = pool.submit(read_csvs, capture.csvs, csvs, mindspore=capture.mindspore)
        detailing = pool.submit(read_details, capture.kernels, kernels)
        summing = pool.submit(read_sums, capture.jsons, sums)
        trace = _trace(capture, sink, pool)
        extra, details, _ = reading.result(), detailing.result(), summing.result()
        sink.notes.extend([*csvs.notes, *kernels.notes, *sums.notes])
        con = trace.con if trace else sink.connect()
        try:
            _tables(con, capture, trace, extra, details, job, rank, sink)
        finally:
            con.close()
    _absent(capture, sink)
    sink.frame("rank", rank_row(capture, job, trace.first_ns if trace else None, "ascend-text"))


def _trace(capture: Capture, sink: Sink, pool: Executor) -> Trace | None:
    """The first trace file; None if there is none, or if it is beyond repair and other files exist."""
    if not capture.traces:
        return None
    if len(capture.traces) > 1:
        sink.note("info", messages.several_traces(n=len(capture.traces), name=capture.traces[0].name))
    try:
        return read_trace(capture.traces[0], sink, pool)
    except TraceFormatError as broken:
        if not (capture.kernels or capture.csvs):
            raise
        sink.note("degraded", broken.what, where=broken.where, lost=broken.lost, hint=broken.hint)
        return None


def _tables(
    con: duckdb.DuckDBPyConnection,
    capture: Capture,
    trace: Trace | None,
    extra: Mapping[str, pl.DataFrame],
    details: Details,
    job: Job,
    rank: int,
    sink: Sink,
) -> None:
    """Write the tables that need the trace and the files beside it."""
    step = _steps(trace, extra.get("step"), sink)
    traced = trace is not None
    if "host_op" in extra and not sink.rows("host_op"):
        sink.frame("host_op", own_host(step, nest(extra["host_op"])))
    read_kernels(con, details, step, extra.get("l2_cache"), sink, traced=traced)
    read_operations(con, step, job, rank, sink, traced=traced)
    if trace:
        trace.counting.result()
    if "counter" in extra:
        sink.frame("counter", pl.concat([sink.read("counter").drop("rank"), extra["counter"]], how="diagonal_relaxed"))
    if traced and sink.rows("kernel") and not only_row(con, "SELECT count(*) FROM task")[0]:
        sink.note(
            "degraded",
            messages.NO_TASK_IN_TRACE,
            where=str(capture.traces[0]),
            lost=messages.LOST_TRACE_TASKS,
            hint=messages.DO_KILLED_PROFILER,
        )


def _steps(trace: Trace | None, iterations: pl.DataFrame | None, sink: Sink) -> pl.DataFrame:
    """The steps from the framework's marks, else from the iterations of a graph."""
    step = trace.step if trace else empty(TABLES["step"]).drop("rank")
    if step.height or iterations is None or iterations.is_empty():
        return step
    sink.frame("step", iterations)
    if sink.rows("host_op"):
        sink.frame("host_op", own_host(iterations, sink.read("host_op").drop("rank", "step")))
    return iterations


def rank_row(capture: Capture, job: Job, first_ns: int | None, format_name: str) -> pl.DataFrame:
    """The row of the table `rank`."""
    row = {
        "capture": capture.stamp,
        "format": format_name,
        "framework": capture.framework or job.framework,
        "vendor": "ascend",
        "device_id": job.device_id,
        "host": match.group(1) if (match := _WORKER.match(legible(capture.root.name))) else None,
        "level": job.level,
        "world_size": job.world_size,
        "epoch_ns": 0 if first_ns is not None and first_ns > _UNIX_NS else None,
        **job.places,
    }
    return pl.DataFrame([row], infer_schema_length=None)


def _absent(capture: Capture, sink: Sink) -> None:
    """Note what is lost by missing files; a profile of Level_none has no device data and is complete."""
    recorder, where = recorder_of_text(capture), str(capture.root)
    if not (capture.traces or sink.rows("kernel")) and (sink.rows("statistic") or sink.rows("step_reported")):
        hint = messages.do_give_timeline(files=recorder.timeline, again=recorder.again or None)
        _degraded(sink, messages.SUMS_ONLY, where, messages.LOST_TIMELINE, hint)
        return
    timeline, kernels, again = _OF_MSPROF if capture.of_msprof else _OF_FRAMEWORKS
    if not capture.traces:
        _degraded(sink, messages.file_missing(name=timeline), where, messages.LOST_TRACE_FILE, again)
    elif not capture.kernels and sink.rows("kernel"):
        _degraded(sink, messages.file_missing(name=kernels), where, messages.LOST_KERNEL_FILE, again)
    elif not sink.rows("host_op") and sink.rows("kernel"):
        hint = messages.do_record_host(how=recorder.host)
        _degraded(sink, messages.NO_HOST_CALL, str(capture.traces[0]), messages.LOST_HOST_CAUSES, hint)
    if not sink.rows("kernel") and not sink.rows("comm_op"):
        hint = messages.DO_TASK_TIME if capture.of_msprof else messages.DO_LEVEL0
        _degraded(sink, messages.NO_TASK, where, messages.LOST_DEVICE, hint)
    names = {path.name for path in capture.jsons}
    summed = sink.read("statistic").filter(pl.col("source") == "op").height > 0
    if summed and sink.rows("comm_op") and "communication.json" not in names and not capture.of_msprof:
        missing, lost = messages.file_missing(name="communication.json"), messages.LOST_PROFILERS_SPLIT
        _degraded(sink, missing, where, lost, messages.DO_COPY_FOLDER)


_OF_MSPROF = ("msprof_*.json", "op_summary_*.csv", messages.DO_EXPORT_MSPROF)
_OF_FRAMEWORKS = ("trace_view.json", "kernel_details.csv", messages.DO_COPY_FOLDER)
"""The timeline and the tasks of an export, and how to get a file of it that is missing."""


def _degraded(sink: Sink, message: Message, where: str, lost: Message, hint: Message) -> None:
    sink.note("degraded", message, where=where, lost=lost, hint=hint)


def recorder_of_text(capture: Capture) -> Recorder:
    """The program that wrote a text export."""
    return recorder_of("msprof" if capture.of_msprof else "ascend", capture.framework) or MSPROF
