"""Reads dumps of msMemScope (`memscope_dump_*.csv` or `.db`, before `leaks_dump_*`): every block of device memory.

The layout is that of the tool's documentation and public tests. Traps: `Attr` is `{size:512,used:10,…}` without quotes
in text, and JSON in the database. Addresses are hexadecimal or decimal. HAL is memory from the driver; the pools (PTA,
MindSpore, ATB) allocate from it, so never add both. Operators are a start and an end on a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.profiles.read import csvfile, messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.assign_rows_to_steps import own_host
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.query import fetched
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.table_sink import Sink

_NAME = re.compile(r"^(memscope|leaks)_dump_\d+\.(csv|db)$")
_DEVICE = re.compile(r"^device_(\d{1,4})$")
_TABLE = "memscope_dump"
_COLUMNS = {
    "id": "ID", "event": "Event", "kind": "Event Type", "name": "Name", "ts_ns": "Timestamp(ns)", "pid": "Process Id",
    "tid": "Thread Id", "device_id": "Device Id", "ptr": "Ptr", "attr": "Attr",
}  # fmt: skip
_WHOLE = ("id", "ts_ns", "pid", "tid", "device_id")
_FRAMEWORK_OF = {"MindSpore": "mindspore", "PTA": "pytorch"}
_POOLS = ("PTA", "MindSpore", "ATB", "PTA_WORKSPACE")
_DRIVER = "HAL"
_EMPTY_STEPS = pl.DataFrame(schema={"step": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64()})
_UNIX_NS = 10**18


class MemscopeReader:
    """Finds dumps of msMemScope by their names, and reads one as the memory of one device."""

    name: ClassVar[str] = "memscope"
    version: ClassVar[int] = 1

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """A source for each dump; if a dump has a text and a database, the database is taken."""
        found = {path.with_suffix(""): path for path in sorted(files) if _NAME.match(path.name)}
        return [
            CaptureSource(
                reader=self.name, format=f"memscope-{'db' if path.suffix == '.db' else 'text'}", root=path,
                files=(path,), rank=None, capture=legible(path.stem), process=_process(path),
            )
            for path in found.values()
        ]  # fmt: skip

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source itself: a dump needs no preparation."""
        return source

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write `memory`, `allocation`, `host_op`, `statistic` and `rank`."""
        rows = _events(source.files[0], sink)
        if not rows.height:
            raise TraceFormatError(source.files[0], refusals.NO_DUMP_EVENT, lost=refusals.LOST_DUMP)
        blocks = rows.filter(pl.col("event").is_in(["MALLOC", "FREE"]))
        calls = _calls(rows.filter(pl.col("event") == "OP_LAUNCH"))
        sink.frame("host_op", own_host(_EMPTY_STEPS, nest(calls)))
        sink.frame("memory", pl.concat([_pools(blocks), _driver(blocks)]).sort("ts_ns", maintain_order=True))
        taken = _allocations(blocks.filter(pl.col("kind").is_in(_POOLS)), calls)
        sink.frame("allocation", taken.select("name", "bytes", "alloc_ns", "release_ns", "device_id"))
        _inefficient(taken, sink)
        row = {
            "capture": source.capture, "format": source.format, "vendor": "ascend",
            "framework": next((name for pool, name in _FRAMEWORK_OF.items() if pool in blocks["kind"]), None),
            "device_id": _only(rows["device_id"]), "epoch_ns": 0 if int(rows["ts_ns"][0]) > _UNIX_NS else None,
        }  # fmt: skip
        sink.frame("rank", pl.DataFrame([row], infer_schema_length=None))


def _process(path: Path) -> str:
    """The device that the folder of a dump names: one dump is of one device of one process."""
    own = [part for part in path.parts if _DEVICE.match(part) or part.startswith("msmemscope_")]
    return "/".join(own)


def _events(path: Path, sink: Sink) -> pl.DataFrame:
    """The events in their order, each with the attributes that Hermes uses."""
    if path.suffix == ".db":
        from hermes.profiles.read.ascend.db.sqlite_database import opened

        with opened(path, sink) as database:
            rows = database.fetch(_TABLE, dict.fromkeys(_COLUMNS.values(), "text"))
        rows = rows.rename({told: name for name, told in _COLUMNS.items()})
    else:
        with sink.connect() as con:
            file = csvfile.load(con, path, "dump", sink)
            if file is None:
                return pl.DataFrame()
            cells = ", ".join(f"{file.pick(told)} AS {name}" for name, told in _COLUMNS.items())
            rows = fetched(con, f"SELECT {cells} FROM {file.relation}")
    whole = [pl.col(name).str.strip_chars().cast(pl.Int64, strict=False) for name in _WHOLE]
    rows = rows.with_columns(*whole, *(_attribute(name) for name in ("size", "used", "total")), _word("owner"),
                             _word("inefficient"))  # fmt: skip
    sound = rows.drop_nulls(["event", "ts_ns"])
    if lost := rows.height - sound.height:
        sink.note(
            "degraded", messages.events_without_time(n=lost), where=str(path), lost=messages.lost_counted_events(n=lost)
        )
    return sound.sort("ts_ns", "id", maintain_order=True)


def _attribute(name: str) -> pl.Expr:
    return pl.col("attr").str.extract(rf'\b{name}"?\s*:\s*"?(\d{{1,18}})\b').cast(pl.Int64).alias(name)


def _word(name: str) -> pl.Expr:
    return pl.col("attr").str.extract(rf'\b{name}"?\s*:\s*"?([^,"}}]{{1,300}})').alias(name)


def _pools(blocks: pl.DataFrame) -> pl.DataFrame:
    """The memory that each pool had reserved and allocated after each event."""
    rows = blocks.filter(pl.col("kind").is_in(_POOLS) & pl.col("used").is_not_null())
    return rows.select(
        pl.col("kind").alias("component"), "ts_ns", pl.col("used").alias("allocated_bytes"),
        pl.col("total").alias("reserved_bytes"), "device_id",
    )  # fmt: skip


def _driver(blocks: pl.DataFrame) -> pl.DataFrame:
    """The memory that the driver had given to the process since the dump began."""
    rows = blocks.filter(pl.col("kind") == _DRIVER).drop_nulls("size")
    # A released block has no size, or the size at its allocation.
    signed = pl.when(pl.col("event") == "MALLOC").then(pl.col("size")).otherwise(-pl.col("size"))
    held = signed.cum_sum().over("device_id").clip(lower_bound=0)
    return rows.select(
        pl.lit(_DRIVER).alias("component"), "ts_ns", pl.lit(None, pl.Int64).alias("allocated_bytes"),
        held.alias("reserved_bytes"), "device_id",
    )  # fmt: skip


def _allocations(blocks: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Each block of a pool, with the operator that allocated it, until its release."""
    lane = ["kind", "device_id", "ptr"]
    rows = blocks.with_columns(
        pl.col("event").shift(-1).over(lane).alias("next"), pl.col("ts_ns").shift(-1).over(lane).alias("until")
    )
    rows = rows.filter((pl.col("event") == "MALLOC") & pl.col("size").is_not_null())
    begun = calls.select("tid", pl.col("start_ns").alias("ts_ns"), (pl.col("start_ns") + pl.col("dur_ns")).alias("end"),
                         pl.col("name").alias("call"))  # fmt: skip
    rows = rows.join_asof(begun.sort("ts_ns"), on="ts_ns", by="tid", check_sortedness=False)
    call = pl.when(pl.col("ts_ns") <= pl.col("end")).then("call")
    return rows.select(
        pl.coalesce(call, "owner", pl.lit("unknown")).alias("name"), pl.col("size").alias("bytes"),
        pl.col("ts_ns").alias("alloc_ns"), pl.when(pl.col("next") == "FREE").then("until").alias("release_ns"),
        "device_id", "inefficient",
    )  # fmt: skip


def _calls(rows: pl.DataFrame) -> pl.DataFrame:
    """Operators as calls on their thread: the start and the end at the same depth belong together."""
    begin = pl.col("kind").str.ends_with("_START")
    rows = rows.filter(begin | pl.col("kind").str.ends_with("_END")).drop_nulls(["tid", "name"])
    rows = rows.with_columns(begin.alias("begin"))
    depth = pl.when(pl.col("begin")).then(1).otherwise(-1).cum_sum().over("tid")
    rows = rows.with_columns((depth + pl.when(pl.col("begin")).then(0).otherwise(1)).alias("depth"))
    lane = ["tid", "depth", "name"]
    rows = rows.with_columns(
        pl.col("ts_ns").shift(-1).over(lane).alias("until"), pl.col("begin").shift(-1).over(lane).alias("again")
    )
    found = rows.filter(pl.col("begin") & (pl.col("again") == pl.lit(value=False)))
    return found.select(
        pl.lit("op").alias("kind"), "name", pl.col("pid").fill_null(0), "tid", pl.col("ts_ns").alias("start_ns"),
        (pl.col("until") - pl.col("ts_ns")).alias("dur_ns"),
    )  # fmt: skip


def _inefficient(taken: pl.DataFrame, sink: Sink) -> None:
    """The blocks that the tool itself calls inefficient, by kind."""
    kinds = taken.drop_nulls("inefficient").group_by("inefficient", maintain_order=True)
    rows = kinds.agg(pl.len().cast(pl.Int64).alias("count"), pl.col("bytes").sum().cast(pl.Float64).alias("value"))
    rows = rows.rename({"inefficient": "name"}).with_columns(
        pl.lit("memscope").alias("source"), pl.lit("B").alias("unit")
    )
    sink.frame("statistic", rows)


def _only(values: pl.Series) -> int | None:
    found = values.drop_nulls().unique().to_list()
    return int(found[0]) if len(found) == 1 else None
