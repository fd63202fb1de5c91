"""Reads what msServiceProfiler wrote of an inference service (MindIE, vLLM, SGLang): requests, batches, KV cache.

The layouts are those of the tool's documentation and of its exporters: `request.csv`, `batch.csv`, `forward.csv`,
`kvcache.csv`, `pd_split_kvcache.csv` and `pd_split_communication.csv`, or the same tables in `profiler.db`. Traps: the
unit is in the name of a column, and releases changed it from microseconds to milliseconds. The database has the columns
without a unit, in milliseconds. Newer files have only a date of the host's own clock for the arrival of a request. One
release named microseconds of the queue milliseconds. `batch.csv` has each batch twice: as scheduled and as run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.profiles.read import csvfile, messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.table_sink import Sink

_FILES = {
    "request.csv": "http_rid", "batch.csv": "batch_type", "forward.csv": "forward_iter", "kvcache.csv": "name",
    "pd_split_kvcache.csv": "block_tables", "pd_split_communication.csv": "prefill_res_time(ms)",
}  # fmt: skip
"""Files of the tool, each with a column that no other program's file of this name has."""
_TABLES = {
    "request.csv": "request", "batch.csv": "batch", "forward.csv": "forward", "kvcache.csv": "kvcache",
    "pd_split_kvcache.csv": "pull_kvcache", "pd_split_communication.csv": "pd_split_communication",
}  # fmt: skip
_DATABASE = "profiler.db"
_HEAD = 1 << 12
_ALIKE = {"kvcache.csv": ("device_kvcache_left", "free_blocks")}
_KINDS = {
    "BatchSchedule": "schedule", "batchFrameworkProcessing": "schedule", "modelExec": "execute",
    "modelRunnerExec": "execute", "specDecoding": "execute", "forward": "forward",
}  # fmt: skip
_UNITS = {"(microsecond)": 3, "(us)": 3, "(ms)": 6, "": 6}
"""Endings of a column's name, and the decimal places from their unit to a nanosecond."""
_BLOCKS = ("device_kvcache_left", "total_blocks", "used_blocks", "free_blocks", "kvcache_usage_rate")
KV_CACHE = "KV cache"
SERVER = "server"
"""The name of the setting that says which server wrote the data."""
_OF_MINDIE, _OF_VLLM = ("device_kvcache_left",), ("free_blocks", "total_blocks")
_DATE, _SECONDS = "%Y-%m-%d %H:%M:%S%.f", r"^(.{19}):(\d{1,9})$"


class ServiceReader:
    """Finds a folder that msServiceProfiler wrote, and reads it as one rank without a device."""

    name: ClassVar[str] = "service"
    version: ClassVar[int] = 1

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """A source for each folder with files of the tool; if a folder has text and database, the text is read."""
        folders: dict[Path, list[Path]] = {}
        for path in sorted(files):
            if path.name in _FILES and _is_own(path):
                folders.setdefault(path.parent, []).append(path)
        for path in sorted(files):
            if path.name == _DATABASE and path.parent not in folders and _has_tables(path):
                folders[path.parent] = [path]
        return [
            CaptureSource(
                reader=self.name, format="service-db" if own[0].name == _DATABASE else "service-text", root=folder,
                files=tuple(own), rank=None, capture=legible(folder.name), process=str(folder),
            )
            for folder, own in folders.items()
        ]  # fmt: skip

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source itself: a service's files need no preparation."""
        return source

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write `request`, `batch`, `counter` of the KV cache, `setting` and `rank`."""
        clock = write_service(source.files, sink)
        row = {"capture": source.capture, "format": source.format, "vendor": "ascend",
               "epoch_ns": 0 if clock == "unix" else None}  # fmt: skip
        sink.frame("rank", pl.DataFrame([row], infer_schema_length=None))


def write_service(files: Sequence[Path], sink: Sink, epoch_ns: int | None = 0) -> str:
    """Write the tables of these files; times become those of a rank whose clock began at `epoch_ns`.

    Returns `unix`, or `host` if only dates of the host's own clock are known. Raises `TraceFormatError` if no row can
    be read.
    """
    found = _tables(files, sink)
    requests, clock = _requests(found, sink)
    batches = _batches(found)
    counters = _cache_counters(found.get("kvcache.csv"))
    if not (requests.height or batches.height or counters.height):
        raise TraceFormatError(files[0], refusals.NO_REQUEST, lost=refusals.LOST_SERVICE)
    if epoch_ns is None:
        sink.note("degraded", messages.NO_CLOCK, where=str(files[0]), lost=messages.LOST_CLOCK)  # fmt: skip
    for name, rows, moment in (
        ("request", requests, "start_ns"), ("batch", batches, "start_ns"), ("counter", counters, "ts_ns"),
    ):  # fmt: skip
        moved = rows.with_columns(pl.col(moment) - (epoch_ns or 0))
        before = sink.read(name).drop("rank") if name == "counter" else moved.clear()
        sink.frame(name, pl.concat([before, moved], how="diagonal"))
    if server := _server(found):
        row = pl.DataFrame({"source": ["job"], "name": [SERVER], "value": [server]})
        sink.frame("setting", pl.concat([sink.read("setting").drop("rank"), row], how="diagonal"))
    return clock


def _is_own(path: Path) -> bool:
    """Whether the head of a file has the columns of the tool."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).partition(b"\n")[0].decode("utf-8-sig", "replace")
    except OSError:
        return False
    names = {name.strip().strip('"') for name in head.split(",")}
    return _FILES[path.name] in names and bool(names & set(_ALIKE.get(path.name, names)))


def _has_tables(path: Path) -> bool:
    from hermes.profiles.read.ascend.db.sqlite_database import glanced

    try:
        with glanced(path) as database:
            return "http_rid" in database.columns("request") or "batch_type" in database.columns("batch")
    except (OSError, TraceFormatError):
        return False


def _tables(files: Sequence[Path], sink: Sink) -> Mapping[str, pl.DataFrame]:
    """The rows of each file as text, by file name; tables of the database get the name of the equivalent file."""
    if files[0].name == _DATABASE:
        from hermes.profiles.read.ascend.db.sqlite_database import opened

        with opened(files[0], sink) as database:
            there = {name: table for name, table in _TABLES.items() if table in database.tables}
            return {
                name: database.fetch(table, dict.fromkeys(sorted(database.columns(table)), "text"))
                for name, table in there.items()
            }
    found: dict[str, pl.DataFrame] = {}
    with sink.connect() as con:
        for path in files:
            file = csvfile.load(con, path, "service", sink)
            if file is not None:
                found[path.name] = con.sql(f"SELECT * FROM {file.relation}").pl()
    return found


def _pick(rows: pl.DataFrame, *names: str) -> pl.Expr:
    """The first of these columns that the rows have, as text; nulls if they have none."""
    name = next((name for name in names if name in rows.columns), None)
    return pl.lit(None, pl.String) if name is None else pl.col(name).cast(pl.String).str.strip_chars()


def _ns(rows: pl.DataFrame, *names: str) -> pl.Expr:
    """The time in ns of the first of these columns that exists with any unit, converted digit by digit."""
    for name in names:
        for unit, places in _UNITS.items():
            if name + unit in rows.columns:
                return _digits(_pick(rows, name + unit), places)
    return pl.lit(None, pl.Int64)


def _digits(text: pl.Expr, places: int) -> pl.Expr:
    parts = text.str.extract_groups(r"^(-?)(\d{1,16})(?:\.(\d*))?$")
    whole, below = parts.struct.field("2"), parts.struct.field("3").fill_null("")
    number = (whole + below.str.pad_end(places, "0").str.slice(0, places)).cast(pl.Int64, strict=False)
    return pl.when(parts.struct.field("1") == "-").then(-number).otherwise(number)


def _whole(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Float64, strict=False).round().cast(pl.Int64, strict=False)


def _requests(found: Mapping[str, pl.DataFrame], sink: Sink) -> tuple[pl.DataFrame, str]:
    """All requests, and the clock of their arrival: `unix` or `host`."""
    given = found.get("request.csv", pl.DataFrame({"http_rid": []}, schema={"http_rid": pl.String()}))
    apart = found.get("pd_split_communication.csv")
    moved = found.get("pd_split_kvcache.csv")
    start = _ns(given, "start_time", "start_time_httpReq")
    dated = _pick(given, "start_datetime").str.replace(_SECONDS, "$1.$2")
    dated = dated.str.to_datetime(_DATE, strict=False, time_unit="ns")
    rows = given.select(
        _pick(given, "http_rid").alias("request"),
        start.alias("start_ns"),
        dated.dt.epoch("ns").alias("dated_ns"),
        _ns(given, "execution_time").alias("dur_ns"),
        _ns(given, "queue_wait_time").alias("queue_ns"),
        _ns(given, "first_token_latency").alias("first_token_ns"),
        _whole(_pick(given, "recv_token_size")).alias("input_tokens"),
        _whole(_pick(given, "reply_token_size")).alias("output_tokens"),
        _pick(given, "cache_hit_rate").cast(pl.Float64, strict=False).alias("cache_hit"),
    ).drop_nulls("request")
    unix = rows["start_ns"].null_count() < rows.height or not rows.height
    rows = rows.with_columns(start_ns=pl.col("start_ns") if unix else pl.col("dated_ns")).drop("dated_ns")
    rows = _sound(rows, sink)
    rows = _with_nodes(rows, apart) if apart is not None else rows.with_columns(prefill_ns=pl.lit(None, pl.Int64))
    if moved is None:
        return rows.with_columns(transfer_ns=pl.lit(None, pl.Int64)), "unix" if unix else "host"
    sums = moved.select(_pick(moved, "rid").alias("request"), _ns(moved, "during_time").alias("transfer_ns"))
    # Each device of the decode node fetches its part: the request waits for the slowest.
    sums = sums.drop_nulls().group_by("request").agg(pl.col("transfer_ns").max())
    return rows.join(sums, on="request", how="left", maintain_order="left"), "unix" if unix else "host"


def _with_nodes(rows: pl.DataFrame, apart: pl.DataFrame) -> pl.DataFrame:
    """The requests with data of the prefill nodes, and requests that only the prefill nodes know."""
    came = _ns(apart, "http_req_time")
    told = apart.select(
        _pick(apart, "rid").alias("request"), came.alias("came_ns"),
        (_ns(apart, "request_end_time", "requset_end_time") - came).alias("whole_ns"),
        (_ns(apart, "prefill_res_time") - came).alias("prefill_ns"),
    ).drop_nulls("request").unique("request", keep="first", maintain_order=True)  # fmt: skip
    both = rows.join(told, on="request", how="full", coalesce=True, maintain_order="left_right")
    return both.with_columns(
        start_ns=pl.coalesce("start_ns", "came_ns"), dur_ns=pl.coalesce("dur_ns", "whole_ns"),
        prefill_ns=pl.when(pl.col("prefill_ns") >= 0).then("prefill_ns"),
    ).drop("came_ns", "whole_ns")  # fmt: skip


def _sound(rows: pl.DataFrame, sink: Sink) -> pl.DataFrame:
    """The requests without impossible times: below zero, or a part that is longer than the whole."""
    for part, what in (("queue_ns", messages.LOST_IN_QUEUE), ("first_token_ns", messages.LOST_UNTIL_FIRST_TOKEN)):
        # One release writes zero if it has no first token.
        wrong = (pl.col(part) < 0) | (pl.col(part) > pl.col("dur_ns")).fill_null(value=False)
        if many := rows.filter(wrong).height:
            sink.note(
                "degraded", messages.longer_than_whole(n=many, part=what),
                lost=messages.lost_request_times(n=many, part=what),
            )  # fmt: skip
        nothing = pl.col(part) == 0 if part == "first_token_ns" else pl.lit(value=False)
        rows = rows.with_columns(pl.when(~(wrong | nothing)).then(part).alias(part))
    return rows.with_columns(dur_ns=pl.when(pl.col("dur_ns") >= 0).then("dur_ns"))


def _batches(found: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Batches as scheduled and as run, by start."""
    parts = [_batches_of(found[name]) for name in ("batch.csv", "forward.csv") if name in found]
    return pl.concat(parts).sort("start_ns", maintain_order=True) if parts else _batches_of(pl.DataFrame())


def _batches_of(rows: pl.DataFrame) -> pl.DataFrame:
    start = _ns(rows, "start_time")
    ran = _ns(rows, "during_time")
    phase = _pick(rows, "batch_type").str.to_lowercase()
    sizes = [_whole(_pick(rows, f"{kind}_batch_size", f"{kind.title()}_batch_size")) for kind in ("prefill", "decode")]
    first = phase.str.contains("prefill") | (sizes[0] > 0).fill_null(value=False)
    later = phase.str.contains("decode") | (sizes[1] > 0).fill_null(value=False)
    made = rows.select(
        _pick(rows, "name").replace_strict(_KINDS, default=None, return_dtype=pl.String).alias("kind"),
        _pick(rows, "name").alias("name"),
        pl.when(first & later).then(pl.lit("mixed")).when(first).then(pl.lit("prefill"))
        .when(later).then(pl.lit("decode")).alias("phase"),
        start.alias("start_ns"),
        pl.coalesce(ran, _ns(rows, "end_time") - start).alias("dur_ns"),
        _whole(_pick(rows, "batch_size")).alias("requests"),
        _whole(_pick(rows, "total_scheduled_tokens")).alias("tokens"),
        _pick(rows, "prof_id").alias("process"),
        _whole(_pick(rows, "dp_rank")).alias("dp"),
    )  # fmt: skip
    return made.filter(pl.col("dur_ns") >= 0).drop_nulls(["kind", "start_ns"])


def _cache_counters(rows: pl.DataFrame | None) -> pl.DataFrame:
    """Samples of the KV cache: its free or used blocks."""
    schema = {"source": pl.String(), "name": pl.String(), "series": pl.String(), "ts_ns": pl.Int64(),
              "value": pl.Float64()}  # fmt: skip
    if rows is None:
        return pl.DataFrame(schema=schema)
    at = _ns(rows, "timestamp", "start_time")
    parts = [
        rows.select(
            pl.lit(KV_CACHE).alias("source"), pl.lit("device").alias("name"), pl.lit(series).alias("series"),
            at.alias("ts_ns"), _pick(rows, series).cast(pl.Float64, strict=False).alias("value"),
        ).drop_nulls(["ts_ns", "value"])
        for series in _BLOCKS
        if series in rows.columns
    ]  # fmt: skip
    return pl.concat(parts).sort("ts_ns", maintain_order=True) if parts else pl.DataFrame(schema=schema)


def _server(found: Mapping[str, pl.DataFrame]) -> str:
    """The server that wrote the data, by columns that the tool documents for one server alone; else an empty text."""

    def has(names: Sequence[str]) -> bool:
        tables = (rows for rows in found.values())
        return any(name in rows.columns and rows[name].drop_nulls().len() for rows in tables for name in names)

    return "vllm" if has(_OF_VLLM) else "mindie" if has(_OF_MINDIE) else ""
