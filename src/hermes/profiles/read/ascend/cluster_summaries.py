"""Reads a finished `cluster_analysis_output` of msprof-analyze: sums of each rank, without the captures.

A summary holds no event, but the split of each step, times and traffic of operations, and links. Files:
`cluster_step_trace_time.csv`, `cluster_communication.json`, `cluster_communication_matrix.json`,
`communication_group.json`, or all of it in `cluster_analysis.db`. Traps: rows of stages stand between rows of ranks,
with a tuple as their index. Times are microseconds, in the communication files milliseconds. The matrix has global
ranks.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.failure_message import MessageError, reason
from hermes.base.units import ns_of_us, whole_number
from hermes.knowledge.ascend_codes import group_hash
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.ascend.capture_folders import SUMMARY, load_json, rank_number
from hermes.profiles.read.ascend.export_communication import read_sums
from hermes.profiles.read.peek_sqlite import looked_into, quoted, stored_columns
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.table_sink import Sink

_STEPS, _DATABASE = "cluster_step_trace_time.csv", "cluster_analysis.db"
_TABLE = "ClusterStepTraceTime"
_BESIDE = ("cluster_communication.json", "cluster_communication_matrix.json", "communication_group.json")
_COLUMNS = {
    "compute_ns": "computing", "exposed_comm_ns": "communication(not overlapped)", "overlapped_ns": "overlapped",
    "comm_ns": "communication", "free_ns": "free", "stage_ns": "stage", "bubble_ns": "bubble",
    "preparing_ns": "preparing",
}  # fmt: skip
_IN_DATABASE = {"communication(not overlapped)": "communication_not_overlapped"}
_PLACES = {"dp": "dp index", "pp": "pp index", "tp": "tp index"}
_DIGITS = re.compile(r"^\d{1,8}$")
_LARGEST = 1 << 30
_MOST_ROWS = 4_000_000
Row = Mapping[str, str]


def claim_summaries(reader: str, files: Sequence[Path]) -> list[CaptureSource]:
    """A source for each rank that a summary among the files describes; the text form before the database."""
    found: list[CaptureSource] = []
    for folder in sorted({path.parent for path in files if path.name in (_STEPS, _DATABASE)}):
        own = {path.name: path for path in files if path.parent == folder}
        main = own.get(_STEPS) or own[_DATABASE]
        beside = [own[name] for name in _BESIDE if name in own] if main.name == _STEPS else []
        try:
            ranks = sorted({rank for row in _rows(main) if (rank := _rank(row)) is not None})
        except (OSError, sqlite3.Error, csv.Error):
            ranks = []
        found += [
            CaptureSource(
                reader=reader, format=SUMMARY, root=folder, files=(main, *beside), rank=rank,
                capture=legible(folder.name),
            )
            for rank in ranks
        ]  # fmt: skip
    return found


class _NoTableError(MessageError, sqlite3.DatabaseError):
    """The database does not have the table of steps."""


def read_summary(source: CaptureSource, rank: int, sink: Sink) -> None:
    """Write `step_reported`, sums of communication and the rank's place; raises `TraceFormatError` without a table."""
    main = source.files[0]
    try:
        rows = [row for row in _rows(main) if _rank(row) == rank]
    except (OSError, sqlite3.Error, csv.Error) as broken:
        raise TraceFormatError(main, refusals.not_read(why=reason(broken)), lost=refusals.LOST_THIS_RANK) from broken
    steps = [step for row in rows if (step := _step(row)) is not None]
    sink.frame("step_reported", pl.DataFrame(steps, infer_schema_length=None) if steps else _no_steps())
    if len(steps) < len(rows):
        sink.note("degraded", messages.no_time(n=len(rows) - len(steps)), where=str(main), lost=messages.LOST_STEPS)
    _communication(source.files[1:], rank, sink)
    places = {name: rank_number(rows[0].get(column)) if rows else None for name, column in _PLACES.items()}
    about = {"capture": source.capture, "format": SUMMARY, "vendor": "ascend", **places}
    sink.frame("rank", pl.DataFrame([about], infer_schema_length=None))
    sink.note(
        "degraded",
        messages.SUMMARY_ONLY,
        where=str(source.root),
        lost=messages.LOST_SUMMARY,
        hint=messages.DO_GIVE_CAPTURES,
    )


def _rows(path: Path) -> Iterator[Row]:
    """The rows of the table of steps, with column names in lower case."""
    if path.name == _DATABASE:
        with looked_into(path) as con:
            listed = ", ".join(map(quoted, stored_columns(con, _TABLE)))
            if not listed:
                raise _NoTableError(refusals.no_table(table=_TABLE))
            cursor = con.execute(f"SELECT {listed} FROM {_TABLE} LIMIT {_MOST_ROWS}")
            names = [str(column[0]).lower() for column in cursor.description]
            for row in cursor:
                yield {name: "" if value is None else str(value) for name, value in zip(names, row, strict=True)}
        return
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for number, line in enumerate(csv.DictReader(file)):
            if number >= _MOST_ROWS:
                return
            yield {str(name).strip().lower(): str(value or "").strip() for name, value in line.items() if name}


def _rank(row: Row) -> int | None:
    return rank_number(row.get("index")) if row.get("type") == "rank" else None


def _step(row: Row) -> dict[str, int | None] | None:
    step = row.get("step", "")
    found: dict[str, int | None] = {"step": whole_number(step)}
    for name, column in _COLUMNS.items():
        text = row.get(column) or row.get(_IN_DATABASE.get(column, column)) or row.get(column.replace(" ", "_"))
        try:
            found[name] = ns_of_us(text) if text else None
        except (ValueError, ArithmeticError):
            found[name] = None
    if found["compute_ns"] is None or found["free_ns"] is None:
        return None
    return {
        name: value if value is not None or name in ("step", "preparing_ns") else 0 for name, value in found.items()
    }


def _no_steps() -> pl.DataFrame:
    return pl.DataFrame(schema={name: pl.Int64() for name in ("step", *_COLUMNS)})


def _communication(files: Iterable[Path], rank: int, sink: Sink) -> None:
    """Write what the job's files say about one rank, in the form of the rank's own files."""
    by_name = {path.name: path for path in files}
    made: list[Path] = []
    for name, pick in (("cluster_communication.json", _times_of), ("cluster_communication_matrix.json", _links_of)):
        if name not in by_name:
            continue
        try:
            content = load_json(by_name[name], _LARGEST)
        except (OSError, ValueError) as broken:
            sink.note(
                "degraded", messages.no_json(why=str(broken)[:120]), where=str(by_name[name]), lost=messages.LOST_SUMS
            )
            continue
        own = sink.scratch / name.removeprefix("cluster_")
        own.write_text(json.dumps(pick(content, rank)), "utf-8")
        made.append(own)
    read_sums(tuple(made), sink)
    if "communication_group.json" in by_name:
        _groups(by_name["communication_group.json"], rank, sink)


def _times_of(content: Mapping[str, Any], rank: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group, steps in content.items():
        kind = "p2p" if group == "p2p" else "collective"
        for step, operations in _items(steps):
            for name, ranks in _items(operations):
                record = ranks.get(str(rank)) if isinstance(ranks, dict) else None
                if record is not None and not name.startswith("Total"):
                    found.setdefault(step, {}).setdefault(kind, {})[name] = record
    return found


def _links_of(content: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The links that leave the rank; other ranks' links are in their own tables."""
    found: dict[str, Any] = {}
    for group, steps in content.items():
        kind = "p2p" if group == "p2p" else "collective"
        for step, operations in _items(steps):
            for name, links in _items(operations):
                own = {pair: sums for pair, sums in _items(links) if pair.partition("-")[0] == str(rank)}
                if own:
                    found.setdefault(step, {}).setdefault(kind, {})[name] = own
    return found


def _items(value: object) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _groups(path: Path, rank: int, sink: Sink) -> None:
    """Write the groups that contain the rank. The matrix counts ranks of the job: a member's place is its rank."""
    try:
        listed = load_json(path, _LARGEST).get("comm_group_parallel_info")
    except (OSError, ValueError):
        return
    rows = []
    for group in listed if isinstance(listed, list) else []:
        members = group.get("rank_set") if isinstance(group, dict) else None
        if not isinstance(members, list) or rank not in members:
            continue
        key = str(group.get("group_name") or group_hash(str(group.get("group_id"))))
        name = group.get("pg_name")
        about = {"group": key, "name": str(name) if name else None, "communicator": str(group.get("group_id") or key)}
        rows += [
            {**about, "member": member, "global_rank": member}
            for member in members
            if isinstance(member, int)
        ]  # fmt: skip
    if rows:
        sink.frame("group", pl.DataFrame(rows, infer_schema_length=None))
