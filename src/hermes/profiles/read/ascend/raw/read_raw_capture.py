"""Reads a capture that no tool has exported: its framework's records, and databases that CANN left in `PROF_*`."""

from __future__ import annotations

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.ascend.capture_folders import Capture
from hermes.profiles.read.ascend.profiler_info import json_beside
from hermes.profiles.read.ascend.raw.export_tools import what_to_run
from hermes.profiles.read.ascend.raw.reader import write_records
from hermes.profiles.read.ascend.raw.record_clock import clock_of
from hermes.profiles.read.table_sink import Sink


def read_raw(capture: Capture, rank: int, sink: Sink) -> None:
    """Write the readable tables of the capture; raises `TraceFormatError` if there are none."""
    if _read_stages(capture, rank, sink):
        return
    if not capture.records:
        raise TraceFormatError(
            capture.root,
            refusals.RAW_ONLY,
            lost=refusals.LOST_EVERYTHING,
            hint=what_to_run(capture),
        )
    write_records(capture, sink)
    if capture.raw:
        sink.note(
            "degraded",
            messages.RAW_DEVICE,
            # Equal notes of all ranks become one note.
            where=str(capture.root.parent),
            lost=messages.LOST_DEVICE,
            hint=what_to_run(capture),
        )


def _read_stages(capture: Capture, rank: int, sink: Sink) -> bool:
    """Whether databases inside `PROF_*` gave the device's side."""
    from hermes.profiles.read.ascend.db.reader import read_tables
    from hermes.profiles.read.ascend.raw.merge_exports import with_records
    from hermes.profiles.read.ascend.raw.stage_databases import staged

    clock = clock_of(capture, json_beside(capture.info, sink) if capture.info else {})
    stages = staged(capture, clock, sink)
    if stages is None:
        return False
    beside = [path for path in (capture.info, capture.metadata) if path]
    if capture.records:
        with_records(
            capture, rank, sink, lambda device: read_tables([stages], beside, rank, device), "ascend-sqlite+raw"
        )
    else:
        read_tables([stages], beside, rank, sink)
        row = sink.read("rank").drop("rank")
        stamp, form = pl.lit(capture.stamp).alias("capture"), pl.lit("ascend-sqlite").alias("format")
        sink.frame("rank", row.with_columns(stamp, form))
    sink.note(
        "info",
        messages.RAW_DATABASES,
        where=str(capture.root.parent),
        hint=what_to_run(capture),
    )
    return True
