"""Reads timelines that msprof exported before CANN 7.0, one per iteration:
`PROF_*/device_D/timeline/msprof_D_M_I.json`.

D is the device, M the model (a compiled graph), I the iteration. All files of a device form one timeline, and each
iteration is a step. Traps: the other files of the folder (`hccl_*`, `task_time_*`, `step_trace_*`) repeat these. The
iteration itself is an event on a lane of the hardware. Collectives lie on a lane without a group, after their planes.
Host calls name only their layer before an `@`. Times count from the start of the host, and `start_info` has this time.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.units import whole_number
from hermes.base.usable_cores import spare_thread
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import ITERATIONS, Json, iteration_of, load_json, rank_number
from hermes.profiles.read.ascend.export_communication import read_operations
from hermes.profiles.read.ascend.export_kernels import read_details, read_kernels
from hermes.profiles.read.ascend.profiler_info import Job
from hermes.profiles.read.ascend.trace import ARGUMENTS, SPARSE, read_scanned, scan_trace
from hermes.profiles.read.chrome import ScannedTrace, sparse_sql
from hermes.profiles.read.query import literal
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.table_sink import Sink

_ABOUT = re.compile(r"^(info\.json|start_info)(\.\d{1,4})?$")
_STAMP = re.compile(r"^PROF_\d+_(\d{14,17})_")
_SMALL = 1 << 20
_STEP_LANE, _COLLECTIVES = "Step Trace%", "Communication Kernel"
# The lane as later versions write it, before its planes.
_GROUP, _BEFORE_PLANES = "Group 0 Communication", -1
_LEVELS = {"AscendCL": "acl", "Node": "node", "Runtime": "runtime", "Model": "model", "GE": "model", "Hccl": "hccl"}
_TASKS = {"NOTIFY_WAIT": "Notify Wait", "NOTIFY_RECORD": "Notify Record"}
# Tasks that move data on a stream of a collective belong to that collective.
_MOVED = {"MEMCPY_ASYNC": "SDMA", "REDUCE_ASYNC_V2": "SDMA"}
_STEP = {"step": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String}


def _either(what: str, words: Mapping[str, str]) -> str:
    """SQL that maps these words to their values; null for other words."""
    return f"CASE {what} " + " ".join(f"WHEN '{word}' THEN '{made}'" for word, made in words.items()) + " END"


_TYPE = 'args."Task Type"'
_TASK_TODAY = (
    f"coalesce({_either(_TYPE, _TASKS)}, CASE WHEN plane.stream IS NOT NULL THEN {_either(_TYPE, _MOVED)} END)"
)


def claim_iterations(reader: str, files: Sequence[Path]) -> list[CaptureSource]:
    """A source for each device with such timelines."""
    by_device: dict[Path, dict[int, list[Path]]] = {}
    for path in files:
        if (found := iteration_of(path)) is not None:
            by_device.setdefault(path.parent.parent, {}).setdefault(found[0], []).append(path)
    ranks = {
        (folder, device): rank_number(_about(_beside(files, folder), "info.json").get("rank_id"))
        for folder, own in by_device.items()
        for device in own
    }
    devices = [device for _, device in ranks]
    alone = len(set(devices)) == len(devices)
    return [
        CaptureSource(
            reader=reader, format=ITERATIONS, root=folder, capture=_stamp(folder),
            files=(*sorted(timelines, key=_order), *_beside(files, folder)),
            # If all devices of one host are present, they are its ranks.
            rank=rank if (rank := ranks[folder, device]) is not None or not alone else device,
        )
        for folder, own in sorted(by_device.items())
        for device, timelines in sorted(own.items())
    ]  # fmt: skip


def _order(path: Path) -> tuple[int, int, int]:
    return iteration_of(path) or (0, 0, 0)


def _stamp(folder: Path) -> str:
    """When the capture began, from the name of the folder `PROF_*`, else that name."""
    match = _STAMP.match(folder.parent.name)
    return match.group(1) if match else legible(folder.parent.name)


def _beside(files: Iterable[Path], folder: Path) -> tuple[Path, ...]:
    """The small files that describe a device, and when its capture began."""
    return tuple(sorted(path for path in files if path.parent == folder and _ABOUT.match(path.name)))


def _about(paths: Iterable[Path], name: str) -> Json:
    """The content of the first of these files with that name; empty if there is none or it is broken."""
    for path in paths:
        if path.name.startswith(name):
            try:
                return load_json(path, _SMALL)
            except (OSError, ValueError):
                return {}
    return {}


def read_iterations(source: CaptureSource, rank: int, sink: Sink) -> None:
    """Write every table that the timelines hold; raises `TraceFormatError` if none of them can be read."""
    timelines = [path for path in source.files if iteration_of(path)]
    small = [path for path in source.files if path not in timelines]
    device = _order(timelines[0])[0]
    scanned, step = _joined(timelines, device, rank, sink)
    job = Job(framework=None, level=None, world_size=None, places={}, device_id=device, members=())
    with closing(scanned.con) as con, spare_thread() as pool:
        trace = read_scanned(scanned, sink, pool, step)
        read_kernels(con, read_details((), sink), step, None, sink, traced=True)
        read_operations(con, step, job, rank, sink, traced=True)
        trace.counting.result()
    started, host = _about(small, "start_info"), _about(small, "info.json").get("hostname")
    began, monotonic = (whole_number(str(started.get(name))) for name in ("collectionTimeBegin", "clockMonotonicRaw"))
    row = {
        "capture": source.capture, "format": source.format, "vendor": "ascend", "device_id": device,
        "host": legible(host) if isinstance(host, str) and host else None,
        "epoch_ns": began * 1_000 - monotonic if began and monotonic else None,
    }  # fmt: skip
    overrides = {"device_id": pl.Int64(), "host": pl.String(), "epoch_ns": pl.Int64()}
    sink.frame("rank", pl.DataFrame([row], schema_overrides=overrides))
    if not sink.rows("kernel") and not sink.rows("comm_op"):
        sink.note("degraded", messages.NO_TASK, where=str(source.root), lost=messages.LOST_DEVICE)


def _joined(timelines: Sequence[Path], device: int, rank: int, sink: Sink) -> tuple[ScannedTrace, pl.DataFrame]:
    """The events of all timelines in the form of a current trace, each once, and the table `step`."""
    parts: list[Path] = []
    steps: list[tuple[int, int, int, str]] = []
    broken: list[TraceFormatError] = []
    scanned: ScannedTrace | None = None
    for number, path in enumerate(timelines):
        aside = sink.another(f"timeline{number}")
        try:
            scanned = scan_trace(path, aside)
            with closing(scanned.con):
                parts.append(sink.scratch / f"part{number}.parquet")
                scanned.con.execute(_today(scanned, device, parts[-1]))
                steps += _iteration(scanned, _order(path)[2])
        except TraceFormatError as why:
            broken.append(why)
        finally:
            sink.notes.extend(aside.notes)
            shutil.rmtree(aside.folder, ignore_errors=True)
    if scanned is None:
        raise broken[0]
    for one in broken:
        sink.note("degraded", one.what, where=one.where, lost=one.lost, hint=one.hint)
    con = sink.connect()
    out = literal(sink.scratch / "joined.parquet")
    listed = ", ".join(literal(part) for part in parts)
    # An event that several timelines contain counts once.
    con.execute(f"COPY (SELECT DISTINCT * FROM read_parquet([{listed}])) TO {out} (FORMAT parquet)")
    for part in parts:
        part.unlink()
    return ScannedTrace(con=con, events=f"read_parquet({out})", header={}, place=scanned.place), _numbered(steps)


def _today(scanned: ScannedTrace, device: int, out: Path) -> str:
    """SQL that writes the events of one timeline in the form of a current trace."""
    args = {
        "name": f"CASE WHEN e.ph = 'M' AND e.name = 'thread_name' AND lane = '{_COLLECTIVES}' THEN '{_GROUP}' "
        'ELSE args."name" END',
        "level": f'coalesce(args."level", {_either("regexp_extract(e.name, $$^([A-Za-z]+)@$$, 1)", _LEVELS)})',
        "Task Type": f"coalesce({_TASK_TODAY}, {_TYPE})",
    }
    packed = ", ".join(
        f'"{name}" := {args[name] if name in args else _argument(name)}' for name in ARGUMENTS if name not in SPARSE
    )
    label = f"""CASE WHEN e.name = 'process_labels' AND {sparse_sql("labels")} = 'NPU'
        THEN to_json({{'labels': 'NPU {device}'}}) ELSE sparse END"""
    return f"""
        COPY (
            WITH thread AS (SELECT pid, tid, any_value(args."name") AS lane FROM {scanned.events}
                          WHERE ph = 'M' AND name = 'thread_name' GROUP BY pid, tid),
                 plane AS (SELECT DISTINCT args."stream id" AS stream FROM {scanned.events}
                           WHERE ph = 'X' AND args."transport type" IS NOT NULL)
            SELECT e.* REPLACE (
                CASE WHEN {_TYPE} = e.name THEN coalesce({_TASK_TODAY}, e.name) ELSE e.name END AS name,
                CASE WHEN lane = '{_COLLECTIVES}' THEN '{_BEFORE_PLANES}' ELSE e.tid END AS tid,
                struct_pack({packed}) AS args, {label} AS sparse)
            FROM {scanned.events} e LEFT JOIN thread USING (pid, tid)
            LEFT JOIN plane ON plane.stream = TRY_CAST(e.tid AS BIGINT)
            WHERE lane IS NULL OR lane NOT LIKE '{_STEP_LANE}'
        ) TO {literal(out)} (FORMAT parquet)"""


def _argument(name: str) -> str:
    return f'args."{name}"'


def _iteration(scanned: ScannedTrace, number: int) -> list[tuple[int, int, int, str]]:
    """The iterations of one timeline, from events on the lane of steps; without one, from first task to last."""
    named = scanned.con.execute(f"""
        SELECT DISTINCT TRY_CAST(regexp_extract(name, '^Iteration (\\d{{1,10}})$', 1) AS BIGINT) AS step, ts_ns,
               dur_ns, name FROM {scanned.events} WHERE ph = 'X' AND regexp_matches(name, '^Iteration \\d{{1,10}}$')
        ORDER BY ts_ns""").fetchall()
    if named:
        return named
    (first, last) = scanned.con.execute(f"""
        SELECT min(ts_ns), max(ts_ns + dur_ns) FROM {scanned.events} e SEMI JOIN (
            SELECT pid FROM {scanned.events} WHERE ph = 'M' AND name = 'process_name'
            AND args."name" IN ('Ascend Hardware', 'HCCL', 'Communication')) USING (pid) WHERE ph = 'X'
        """).fetchall()[0]
    return [(number, first, last - first, f"Iteration {number}")] if first is not None else []


def _numbered(steps: Sequence[tuple[int, int, int, str]]) -> pl.DataFrame:
    """The table `step`, by the numbers of the iterations, or by their order if two models have equal numbers."""
    rows = pl.DataFrame(sorted(set(steps), key=lambda row: row[1:]), schema=_STEP, orient="row")
    if rows["step"].n_unique() < rows.height:
        rows = rows.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("step"))
    return rows
