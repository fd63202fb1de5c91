"""The reader of PyTorch's Kineto traces (`*.pt.trace.json`, `.json`, `.json.gz`) of CUDA, ROCm and CPU jobs.

Traps: category names changed (`Kernel` became `kernel`). The stream is `"stream 7"` or 7. The same argument is
`external id` and `External id`. Copies and allocations spell `bytes` and `Bytes`. Times are whole microseconds since
1970, or fractions of them since `baseTimeNanoseconds`. Python rows of an unknown thread have process and thread 0.
`cuda_sync` rows lie on streams and are no work. `f` ends of flows stand on host threads too. Kernels at the start were
launched before the capture.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import duckdb
import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.usable_cores import spare_thread
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.chrome import ScannedTrace, scan
from hermes.profiles.read.kineto.comm import write_comm
from hermes.profiles.read.kineto.device import write_kernels
from hermes.profiles.read.kineto.find_traces import capture_of, claimed, host_of
from hermes.profiles.read.kineto.flows_and_memory import write_allocations, write_flows, write_memory
from hermes.profiles.read.kineto.host import IS_STEP, host_rows, write_steps
from hermes.profiles.read.kineto.legacy import is_legacy, write_legacy
from hermes.profiles.read.kineto.missing_tasks import launches_without_tasks
from hermes.profiles.read.kineto.trace_info import write_about
from hermes.profiles.read.reader_interface import CaptureSource
from hermes.profiles.read.table_sink import Sink

_ARGUMENTS = (
    "External id", "correlation", "stream", "device", "grid", "bytes", "kind", "cuda_sync_kind",
    "Input Dims", "Input type", "Sequence number", "Fwd thread id", "Call stack",
    "Python id", "Python parent id", "Addr", "Device Id", "Device Type", "Total Allocated", "Total Reserved",
)  # fmt: skip
# Only collectives, the waits of `cuda_sync`, and the copies of MTIA have these arguments.
_SPARSE = (
    "Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "Process Group Name",
    "Process Group Description", "Process Group Ranks", "Src Rank", "Dst Rank",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "direction", "size",
)  # fmt: skip
_INTEGERS = (
    "External id", "correlation", "stream", "device", "bytes", "Sequence number", "Fwd thread id", "Python id",
    "Python parent id", "Device Id", "Device Type", "Total Allocated", "Total Reserved",
)  # fmt: skip
_SPELLINGS = {"external id": "External id", "Bytes": "bytes"}

# Maps a lower-case category to the kind of row, most frequent first: each row is compared until a category fits.
# `overhead` is time that CUPTI itself takes on the host.
_KIND = {
    "python_function": "python", "cpu_op": "op", "cuda_runtime": "runtime", "hip_runtime": "runtime",
    "kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "user_annotation": "mark",
    "cuda_driver": "driver", "operator": "op", "runtime": "runtime", "xpu_runtime": "runtime",
    "mtia_runtime": "runtime", "privateuse1_runtime": "runtime", "glow_runtime": "runtime", "overhead": "runtime",
    "xpu_driver": "driver", "privateuse1_driver": "driver",
    "concurrent_kernel": "kernel", "memcpy": "memcpy", "memset": "memset", "cuda_sync": "sync",
    "gpu_user_annotation": "ignored", "trace": "ignored",
    # Categories of MTIA, Gaudi and XPU; one category holds the kernels and the copies of MTIA.
    "mtia_ccp_events": "kernel", "hpu_op": "kernel", "xpu_sync": "sync",
    "mtia_insight": "ignored", "mtia_counters": "ignored", "collective_comm": "collective", "cuda_event": "ignored",
    "cuda_profiler_range": "ignored", "gpu_pm_counter": "ignored",
}  # fmt: skip
_OLD = "operator"
_OLD_OPERATOR = "contains(name, '::') OR regexp_matches(name, '(Backward[0-9]*|^detach_?)$')"
"""Until PyTorch 1.11 the user's ranges are operators by their category, and only names tell them apart."""
_OF_MTIA, _COPY_OF_MTIA = "mtia_ccp_events", "dma_request"
_BY_NAME = {
    _OF_MTIA: f"CASE name WHEN '{_COPY_OF_MTIA}' THEN 'memcpy' ELSE 'kernel' END",
    _OLD: f"CASE WHEN {_OLD_OPERATOR} THEN 'op' ELSE 'mark' END",
}
# Step marks, which are marks or operators by their category, are told apart here, in passing.
_STEP_KINDS = tuple(category for category, kind in _KIND.items() if kind in ("op", "mark"))
_WHAT = (
    f"CASE WHEN ph = 'X' THEN CASE WHEN {IS_STEP} AND lower(cat) IN {_STEP_KINDS} THEN 'step' ELSE CASE lower(cat) "
    + " ".join(f"WHEN '{category}' THEN " + _BY_NAME.get(category, f"'{kind}'") for category, kind in _KIND.items())
    + " END END END"
)
# The values of strides and flags decide the work of convolutions and attention; other operators' values are not kept.
_GIVEN = (
    """CASE WHEN args."Concrete Inputs" IS NOT NULL AND (contains(name, 'conv') OR contains(name, 'attention') """
    """OR name = 'aten::index_select') THEN args."Concrete Inputs" END"""
)
# Strides tell whether several inputs have one memory order; rows with a single tensor need none.
_STRIDES = (
    """CASE WHEN starts_with(name, 'aten::') AND contains(args."Input Strides", '],') """
    """THEN args."Input Strides" END"""
)


_FEW_LAUNCHES = 0.01
"""The share of launches that may be under way when a capture ends; real traces have no launch without a task."""


class KinetoReader:
    """Reads one Kineto file into the tables of one rank."""

    name: ClassVar[str] = "kineto"
    version: ClassVar[int] = 17

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """One source for each file that is a Kineto trace; Ascend's `trace_view.json` is another reader's."""
        return claimed(self.name, files)

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source itself: a trace needs no preparation."""
        return source

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write all tables of the trace; raises `TraceFormatError` if no event of it can be read."""
        path = source.files[0]
        events = scan(
            path, (*_ARGUMENTS, *_SPARSE), sink, _SPELLINGS, integers=_INTEGERS, sparse=_SPARSE,
            helpers=("Concrete Inputs", "Input Strides"),
            derived={"what": _WHAT, "given": _GIVEN, "strides": _STRIDES}, memory_mb=600,
        )  # fmt: skip
        try:
            _sort_out(events.con, events)
            _note_strangers(events.con, path, sink)
            step = write_steps(events.con, sink)
            with spare_thread() as pool:
                # Each thread does half of the work: host calls over a separate connection, the rest here.
                calls = pool.submit(_host_rows, events, step, sink)
                written = pool.submit(lambda: sink.frame("host_op", calls.result()))
                count, ns = write_kernels(events.con, step, sink)
                _note_cut_off(events.con, path, sink)
                if count:
                    sink.note(
                        "degraded", messages.durations_cut(n=count, ns=ns),
                        where=str(path), lost=messages.LOST_REAL_DURATIONS,
                    )  # fmt: skip
                write_comm(events.con, events.header.get("distributedInfo"), step, sink)
                write_flows(events.con, sink)
                write_memory(events.con, sink)
                write_about(events, source.capture or capture_of(path), host_of(path), sink)
                # Allocations are named after the host calls that made them.
                write_allocations(events.con, calls.result(), sink)
                written.result()
            _note_gaps(path, sink)
        finally:
            events.con.close()


def _host_rows(events: ScannedTrace, step: pl.DataFrame, sink: Sink) -> pl.DataFrame:
    with contextlib.closing(sink.connect()) as con:
        _sort_out(con, events)
        return host_rows(con, step, sink)


def _sort_out(con: duckdb.DuckDBPyConnection, events: ScannedTrace) -> None:
    """Make the view `event`: the events with numbers for the keys that every table needs."""
    if is_legacy(con, events.events):
        write_legacy(con, events.events)
        return
    what, collective = "what", "false"
    if con.execute(f"SELECT 1 FROM {events.events} WHERE what = 'collective' LIMIT 1").fetchall():
        # torch_npu records collectives of the device so, XPU the calls of the host beside its kernels.
        host = f"SELECT DISTINCT pid FROM {events.events} WHERE what IN ('op', 'python', 'runtime')"
        collective = f"coalesce(what = 'collective' AND pid NOT IN ({host}), false)"
        what = (
            f"CASE WHEN what IS DISTINCT FROM 'collective' THEN what WHEN {collective} THEN 'kernel' ELSE 'ignored' END"
        )
    con.execute(
        "CREATE TEMP VIEW event AS "
        "SELECT ph, coalesce(name, '') AS name, cat, pid, tid, ts_ns, dur_ns, id, args, sparse, given, strides, "
        f"{what} AS what, {collective} AS collective, "
        "TRY_CAST(pid AS BIGINT) AS pid_number, TRY_CAST(tid AS BIGINT) AS tid_number, "
        'args."External id" AS external, nullif(args.correlation, 0) AS correlation '
        f"FROM {events.events}"
    )


def _note_strangers(con: duckdb.DuckDBPyConnection, path: Path, sink: Sink) -> None:
    rows = con.execute(
        "SELECT coalesce(cat, 'none'), count(*) FROM event WHERE ph = 'X' AND what IS NULL "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    if rows:
        names = [*(str(name)[:40] for name, _ in rows[:5]), *(["…"] if len(rows) > 5 else [])]
        if not con.execute("SELECT 1 FROM event WHERE what IS NOT NULL LIMIT 1").fetchall():
            raise TraceFormatError(
                path, refusals.not_pytorch(names=", ".join(names)), lost=messages.LOST_FILE,
                hint=refusals.DO_RECORD_PYTORCH,
            )  # fmt: skip
        sink.note(
            "degraded", messages.categories_unknown(n=sum(count for _, count in rows), names=names),
            where=str(path), lost=messages.LOST_EVENTS, hint=messages.DO_REPORT_CATEGORY,
        )  # fmt: skip


def _note_cut_off(con: duckdb.DuckDBPyConnection, path: Path, sink: Sink) -> None:
    """Note launches whose tasks are missing from the trace, if the trace has a device at all."""
    missing, launches = launches_without_tasks(con) if sink.rows("kernel") else (0, 0)
    if missing:
        sink.note(
            "degraded" if missing > _FEW_LAUNCHES * launches else "info",
            messages.launches_without_tasks(n=missing, launches=launches),
            where=str(path), lost=messages.LOST_LAUNCHED_TASKS, hint=messages.DO_CAPTURE_LESS,
        )  # fmt: skip


def _processes(sink: Sink) -> list[str]:
    """The processes that both run operators and make runtime calls of a device."""
    rows = pl.scan_parquet(sink.folder / "host_op.parquet").group_by("pid").agg(
        pl.col("kind").eq("op").any().alias("runs"), pl.col("kind").is_in(RUNTIME_KINDS).any().alias("launches")
    )  # fmt: skip
    both = rows.filter(pl.col("runs") & pl.col("launches") & pl.col("pid").is_not_null()).select("pid").sort("pid")
    return [str(pid) for (pid,) in both.collect().iter_rows()]


def _note_gaps(path: Path, sink: Sink) -> None:
    """Note what the tables lack because the trace does not have it."""
    work = pl.scan_parquet(sink.folder / "kernel.parquet").filter(pl.col("component") != "wait")
    kernels, unlaunched = work.select(pl.len(), pl.col("launch_ns").null_count().alias("unlaunched")).collect().row(0)
    if not kernels:
        sink.note("info", messages.NO_DEVICE_WORK, where=str(path), lost=messages.LOST_DEVICE_ALL,
                  hint=messages.DO_CUDA_ACTIVITY)  # fmt: skip
    if not sink.rows("host_op"):
        sink.note("degraded", messages.NO_HOST_OPERATION, where=str(path), lost=messages.LOST_HOST_CAUSES,
                  hint=messages.DO_CPU_ACTIVITY)  # fmt: skip
    several = _processes(sink)
    if len(several) > 1:
        sink.note(
            "degraded", messages.several_processes(n=len(several), pids=several),
            where=str(path), lost=messages.LOST_OWNERSHIP,
            hint=messages.DO_TRACE_A_PROCESS,
        )  # fmt: skip
    if kernels and unlaunched:
        sink.note(
            "info",
            messages.launched_outside(n=unlaunched, tasks=kernels),
            where=str(path),
        )
