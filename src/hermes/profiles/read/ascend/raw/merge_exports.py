"""Merges a capture whose device part alone was exported by CANN with the framework's own records beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import polars as pl

from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import Capture
from hermes.profiles.read.ascend.raw.reader import write_records
from hermes.profiles.read.ascend.text_export import read_text
from hermes.profiles.read.assign_rows_to_steps import own_device, own_host
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.table_sink import Sink

_OF_RECORDS = ("setting", "step", "stack", "gc", "memory", "allocation")
_ADDED = ("host_op", "flow")
_DEVICE = ("kernel", "comm_op")


def read_exported_device(capture: Capture, rank: int, sink: Sink) -> None:
    """Write the device's tables from CANN's export, the framework's from its records, and both sides' host calls."""
    with_records(capture, rank, sink, lambda device: read_text(capture, rank, device), "ascend-text+raw")


def with_records(capture: Capture, rank: int, sink: Sink, read_device: Callable[[Sink], None], form: str) -> None:
    """Merge the device tables that `read_device` writes with the framework's records; `form` names both formats."""
    device, host = map(sink.another, ("device", "host"))
    try:
        read_device(device)
        write_records(capture, host)
        _merge(device, host, sink, form)
    finally:
        for part in (device, host):
            shutil.rmtree(part.folder, ignore_errors=True)
    sink.notes += [note for note in device.notes if note.message != messages.NO_HOST_CALL]
    sink.notes += [note for note in host.notes if note not in device.notes]


def _merge(device: Sink, host: Sink, sink: Sink, form: str) -> None:
    step = host.read("step").drop("rank")
    for path in sorted(device.folder.glob("*.parquet")):
        if path.stem not in (*_OF_RECORDS, *_ADDED, *_DEVICE, "rank"):
            sink.frame(path.stem, device.read(path.stem).drop("rank"))
    for name in _OF_RECORDS:
        better = host if host.rows(name) else device
        sink.frame(name, better.read(name).drop("rank"))
    for name in _DEVICE:
        rows = device.read(name).drop("rank", "step")
        if rows.height:
            sink.frame(name, own_device(step, rows))
    sink.frame("flow", pl.concat([part.read("flow").drop("rank") for part in (device, host)]))
    calls = [part.read("host_op").drop("rank", "op_id", "depth", "self_ns", "step") for part in (device, host)]
    sink.frame("host_op", own_host(step, nest(pl.concat(calls))))
    row, other = (part.read("rank").drop("rank") for part in (host, device))
    filled = [pl.coalesce(row[name], other[name]).alias(name) for name in row.columns]
    sink.frame("rank", row.select(filled).with_columns(pl.lit(form).alias("format")))
