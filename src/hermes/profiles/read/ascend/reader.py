"""The reader of Ascend profiles: text export, database export, or both merged; PyTorch and MindSpore."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.message import Message, Text
from hermes.knowledge.vendor_traits import MARKED_ALONE
from hermes.model.tables import TABLES
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.ascend.capture_folders import (
    ITERATIONS,
    SUMMARY,
    Capture,
    captures,
    raw_kind,
    renamed_timelines,
)
from hermes.profiles.read.ascend.device_info import add_device, device_infos
from hermes.profiles.read.ascend.iterations import claim_iterations, read_iterations
from hermes.profiles.read.ascend.text_export import read_text
from hermes.profiles.read.reader_interface import CaptureSource
from hermes.profiles.read.table_sink import Sink
from hermes.store.input_files import walk

# Tables that refer to each other by row number must come from the same side.
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("kernel", "pmu"),
    ("comm_op", "comm_task"),
    ("host_op", "stack", "flow"),
    ("step",),
    ("gc",),
    ("memory",),
    ("allocation",),
    ("comm_traffic",),
    ("comm_link",),
    ("comm_reported",),
    ("step_reported",),
    ("statistic",),
    ("input_queue",),
    ("group",),
)
_FROM_TEXT = ("counter", "sample", "setting", "thread_run")
RAW = "ascend-raw"
"""The format of a capture that no tool has exported yet."""


class AscendReader:
    """Finds `*_ascend_pt` and `*_ascend_ms` folders, single output folders and single files, and reads them."""

    name: ClassVar[str] = "ascend"
    version: ClassVar[int] = 10

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """The captures among these files; captures of databases alone are also found by the databases' content."""
        whole, lone = [capture for capture in captures(files) if capture.has_text], renamed_timelines(files)
        found = [_source(capture) for capture in (*whole, *lone)]
        # Files beside a single file are no part of its capture.
        roots = {one.root for one in whole}
        rest = [path for path in files if roots.isdisjoint(path.parents)]
        databases: list[CaptureSource] = []
        alone = [path for path in rest if raw_kind(path) != "raw"]
        if any(path.suffix.startswith((".db", ".sqlite")) for path in alone):
            # The database driver takes a tenth of a second to import.
            from hermes.profiles.read.ascend.db import claim_databases

            databases = [dataclasses.replace(source, reader=self.name) for source in claim_databases(alone)]
        known = roots | {source.root for source in databases}
        unread = [one for one in captures(rest) if one.root not in known and not (one.has_text or one.databases)]
        old = claim_iterations(self.name, [path for one in unread if not one.records for path in one.raw])
        raw = [_source(one) for one in unread if not any(one.root in source.root.parents for source in old)]
        if not (found or databases or old or raw):
            from hermes.profiles.read.ascend.cluster_summaries import claim_summaries

            return claim_summaries(self.name, files)
        return sorted([*found, *databases, *old, *raw], key=lambda source: (source.root, source.files))

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source to read for a capture that no tool has exported: its export, if a tool of this host makes one.

        Without an export it is the source itself, with a note.
        """
        if source.format != RAW:
            return source
        from hermes.profiles.read.ascend.raw.export import export

        (capture,) = captures([*source.files, *source.aside])
        made = export(capture, cache, os.environ, tell)
        notes = (*source.notes, *([made.note] if made.note else []))
        exported = next(iter(self.claim(walk([made.root]))), None) if made.root else None
        if exported is None:
            return dataclasses.replace(source, notes=notes)
        return dataclasses.replace(exported, rank=source.rank, capture=source.capture, notes=notes)

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write the tables from text alone, databases alone, or both merged table by table."""
        self._read(source, rank, sink)
        add_device((*source.files, *source.aside), sink)

    def _read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        if source.format == RAW:
            from hermes.profiles.read.ascend.raw.read_raw_capture import read_raw

            read_raw(captures([*source.files, *source.aside])[0], rank, sink)
            return
        if source.format == ITERATIONS:
            read_iterations(source, rank, sink)
            return
        if source.format == SUMMARY:
            from hermes.profiles.read.ascend.cluster_summaries import read_summary

            read_summary(source, rank, sink)
            return
        capture = next((capture for capture in captures(source.files) if capture.has_text), None)
        capture = capture or next(iter(renamed_timelines(source.files)), None)
        if capture is None:
            _read_database(source.files, source.capture, rank, sink)
        elif capture.needs_records:
            from hermes.profiles.read.ascend.raw.merge_exports import read_exported_device

            read_exported_device(captures([*source.files, *source.aside])[0], rank, sink)
        elif capture.databases:
            _read_both(capture, rank, sink)
        else:
            read_text(capture, rank, sink)


def _source(capture: Capture) -> CaptureSource:
    kinds = [kind for kind, there in (("text", capture.has_text), ("db", bool(capture.databases))) if there]
    small, large = capture.raw_files
    if capture.needs_records:
        kinds = ["text", "raw"]
    return CaptureSource(
        reader=AscendReader.name,
        format=f"{'msprof' if capture.of_msprof else 'ascend'}-{'+'.join(kinds)}" if kinds else RAW,
        root=capture.root,
        files=(*capture.files, *device_infos(capture.raw))
        if kinds and not capture.needs_records
        else (*capture.files, *small),
        aside=() if kinds else large,
        rank=capture.rank,
        capture=capture.stamp,
    )


def _read_database(files: Sequence[Path], capture: str, rank: int, sink: Sink) -> None:
    from hermes.profiles.read.ascend.db import read_database

    read_database(files, rank, sink)
    row = sink.read("rank").drop("rank")
    sink.frame("rank", row.with_columns(pl.lit(capture).alias("capture")))
    # A missing table leaves no other sign.
    where = ", ".join(str(path) for path in files if path.suffix != ".json")
    marked = not sink.rows("kernel") and MARKED_ALONE in sink.read("comm_op")["library"]
    if marked:
        sink.note(
            "degraded",
            messages.COLLECTIVES_BY_MARKS,
            where=where,
            lost=messages.LOST_COMPUTED,
            hint=messages.DO_LEVEL0_ONLY,
        )
    for name, source, lost in (
        ("kernel", "TASK", messages.LOST_DEVICE),
        ("host_op", "PYTORCH_API and CANN_API", messages.LOST_HOST_CAUSES),
    ):
        if not sink.rows(name) and not (name == "kernel" and marked):
            sink.note(
                "degraded",
                messages.table_missing(table=source),
                where=where,
                lost=lost,
                hint=messages.DO_LEVEL0,
            )


def _read_both(capture: Capture, rank: int, sink: Sink) -> None:
    """Merge both exports: the database where it alone has data or better data, text for counters and settings.

    A note says which tables came from where.
    """
    parts: dict[str, Sink] = {}
    for side in ("text", "db"):
        part = sink.another(side)
        try:
            if side == "text":
                read_text(capture, rank, part)
            else:
                beside = [path for path in (capture.info, capture.metadata) if path]
                _read_database([*beside, *capture.databases], capture.stamp, rank, part)
        except TraceFormatError as broken:
            sink.note("degraded", broken.what, where=broken.where, lost=broken.lost, hint=broken.hint)
            continue
        finally:
            shutil.rmtree(part.scratch, ignore_errors=True)
        parts[side] = part
    if not parts:
        raise TraceFormatError(
            capture.root,
            refusals.NO_EXPORT,
            lost=refusals.LOST_CAPTURE,
            hint=messages.DO_COPY_AGAIN,
        )
    chosen = _merge(parts, sink)
    for side, part in parts.items():
        for note in part.notes:
            # Data that one side lacks and the other has is not lost.
            if len(parts) == 2 and note.level == "degraded" and _is_missing(note.message):
                continue
            sink.notes.append(note)
        shutil.rmtree(sink.scratch / side, ignore_errors=True)
    if len(parts) == 2:
        sink.note("info", messages.merged(chosen=chosen), where=str(capture.root))


def _is_missing(text: Text) -> bool:
    """Whether a note says that a file or a table is missing altogether."""
    return isinstance(text, Message) and text.identifier in _MISSING


_MISSING = frozenset(said(**{name: ""}).identifier for said, name in (
    (messages.file_missing, "name"), (messages.table_missing, "table")
))  # fmt: skip


def _merge(parts: dict[str, Sink], sink: Sink) -> str:
    taken: dict[str, list[str]] = {"text": [], "db": []}
    rows = {(side, name): part.rows(name) for side, part in parts.items() for name in TABLES}
    for group in (*_TOGETHER, *((name,) for name in _FROM_TEXT)):
        order = ("text", "db") if group[0] in _FROM_TEXT else ("db", "text")
        side = next((side for side in order if rows.get((side, group[0]))), next(iter(parts)))
        for name in group:
            if rows.get((side, name)):
                sink.frame(name, parts[side].read(name).drop("rank"))
        if rows.get((side, group[0])):
            taken[side].append(group[0])
    sink.frame("rank", _rank_row(parts))
    return "; ".join(f"{', '.join(names)} from the {side}" for side, names in taken.items() if names)


def _rank_row(parts: dict[str, Sink]) -> pl.DataFrame:
    rows = [part.read("rank").drop("rank") for part in parts.values()]
    merged = (
        rows[0]
        if len(rows) == 1
        else pl.DataFrame(
            {
                name: [next((value for row in rows if (value := row[name][0]) is not None), None)]
                for name in rows[0].columns
            },
            schema=rows[0].schema,
        )
    )
    return merged.with_columns(pl.lit("ascend-text+db" if len(rows) == 2 else merged["format"][0]).alias("format"))
