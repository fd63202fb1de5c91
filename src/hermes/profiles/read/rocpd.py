"""Reads databases of AMD's rocprofv3 (`rocprofv3 --output-format rocpd`): kernels, copies, HIP calls, ROCTX ranges.

The layout is the schema `rocpd` of ROCprofiler-SDK, version 3. Traps: names of tables end in the file's own identifier;
plain names are views, which are not read. Merged files hold tables of several identifiers. Names are numbers into
`rocpd_string`. `pid` and `tid` are numbers of rows with the system's numbers. The work of a call has the call's
`stack_id`, and `correlation_id` comes from the program itself. If calls of HSA were recorded too, a kernel names the
HSA call within the HIP call. A grid counts work items, not groups of work items. Releases before streams were recorded
write stream 0 for all kernels, and tell queues apart. A range has its text in `extdata` of its event. A mark is a
sample. The environment of the process is stored, and with it the rank.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.knowledge.vendor_traits import vendor_of
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.ascend.capture_folders import rank_number
from hermes.profiles.read.chrome import head_of
from hermes.profiles.read.peek_sqlite import looked_into, quoted, stored_columns
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.runtime_tables import said_by_range, write_tables
from hermes.profiles.read.table_sink import Sink

if TYPE_CHECKING:
    from hermes.profiles.read.ascend.db.sqlite_database import Database

_WORK = re.compile(r"^rocpd_(?:kernel_dispatch|memory_copy)(\w{0,64})$")
_SIGN, _SCHEMA = b"rocpd_kernel_dispatch", 1 << 20
_MOST_TABLES, _MOST_PROCESSES = 4_096, 4_096
_LONGEST_ENVIRONMENT = 1 << 20
_LATEST_NS, _LONGEST_NS = 1 << 62, 86_400 * 10**9
_MOST_LAYERS = 4
"""The most HSA calls nested in each other; usually one lies within a HIP call."""
# Values of `rocprofiler_memory_copy_operation_t`.
_WAYS = {
    "HOST_TO_DEVICE": ("HtoD", "h2d"), "DEVICE_TO_HOST": ("DtoH", "d2h"), "DEVICE_TO_DEVICE": ("DtoD", "d2d"),
    "HOST_TO_HOST": ("HtoH", "h2h"),
}  # fmt: skip
_BETWEEN = ("PtoP", "p2p")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """One process of one part of a file: the ending of its tables' names, and its row."""

    part: str
    number: int
    rank: int | None
    world: int | None


_NOBODY = _Process(part="", number=-1, rank=None, world=None)


class RocpdReader:
    """Finds rocprofv3 databases by their tables; each process that used a device is a rank."""

    name: ClassVar[str] = "rocpd"
    version: ClassVar[int] = 1

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """A source for each process with work on a device."""
        found = []
        for path in sorted(files):
            if path.suffix in (".db", ".sqlite", ".sqlite3"):
                processes = _processes(path)
                found += [
                    CaptureSource(
                        reader=self.name, format="rocpd", root=path, files=(path,), rank=one.rank, world=one.world,
                        process=f"{path}:{one.part}:{one.number}",
                        capture=legible(path.stem) + (f" process {one.number}" if len(processes) > 1 else ""),
                    )
                    for one in processes
                ]  # fmt: skip
        return found

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source itself: a database needs no preparation."""
        return source

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write the tables of one process."""
        from hermes.profiles.read.ascend.db.sqlite_database import opened

        path = source.files[0]
        _, part, number = source.process.rsplit(":", 2)
        with opened(path, sink) as database:
            tables = _Tables(database, part, int(number), sink)
            events = tables.events()
            regions, samples = tables.regions(events), tables.samples(events)
            tasks = tables.tasks(events, regions)
            row = tables.about(tasks)
        calls = regions.filter(pl.col("kind") != "mark").select(*_HOST, pl.col("stack_id").alias("correlation"))
        if not tasks.height and not calls.height:
            raise TraceFormatError(
                path, refusals.NO_WORK_IN_DATABASE, lost=refusals.LOST_THIS_DATABASE, hint=messages.DO_ROCPROF
            )
        marks = pl.concat([regions, samples], how="diagonal").filter(pl.col("kind") == "mark")
        ranges = marks.select(*said_by_range(pl.col("name")), "pid", "tid", "start_ns", "dur_ns", "domain")
        host = write_tables(ranges, calls, tasks.drop("agent"), sink, vendor="amd")
        row |= {"capture": source.capture, "format": source.format, "world_size": source.world}
        sink.frame("rank", pl.DataFrame([row], schema_overrides=_OF_RANK))
        _note(path, host, sink)


_HOST = ("kind", "name", "pid", "tid", "start_ns", "dur_ns")
_OF_RANK = {"chip": pl.String(), "host": pl.String(), "device_id": pl.Int64(), "world_size": pl.Int64()}


def _processes(path: Path) -> list[_Process]:
    """The processes of a database with work on a device; empty for any other file.

    A damaged file that does not name its processes counts as one process; its reader reports the damage.
    """
    from hermes.profiles.read.ascend.db.sqlite_database import looks_like

    if not looks_like(path) or _SIGN not in head_of(path, _SCHEMA):
        return []
    found: list[_Process] = []
    try:
        with looked_into(path) as con:
            query = f"SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT {_MOST_TABLES}"
            tables = [match for (name,) in con.execute(query).fetchall() if (match := _WORK.match(str(name)))]
            whole = True
            parts: dict[str, set[int]] = {}
            for match in tables:
                whole &= _add_numbers(con, match.group(), parts.setdefault(match.group(1), set()))
            for part, numbers in sorted(parts.items()):
                for number in sorted(numbers):
                    rank, world = _place(con, part, number)
                    found.append(_Process(part=part, number=number, rank=rank, world=world))
    except (OSError, sqlite3.Error):
        whole = False
    return found[:_MOST_PROCESSES] if found or whole else [_NOBODY]


def _add_numbers(con: sqlite3.Connection, table: str, found: set[int]) -> bool:
    """Add the processes that a table names, up to a damaged page; returns whether no page is damaged."""
    try:
        if {"pid", "start", "end"} <= set(stored_columns(con, table)):
            for (pid,) in con.execute(f"SELECT DISTINCT pid FROM {quoted(table)} LIMIT {_MOST_PROCESSES}"):
                found |= {pid} if isinstance(pid, int) else set()
    except sqlite3.Error:
        return False
    return True


def _place(con: sqlite3.Connection, part: str, number: int) -> tuple[int | None, int | None]:
    """The rank and the number of ranks, from the environment that the launcher gave the process; else None for both."""
    table = f"rocpd_info_process{part}"
    if not {"id", "environment"} <= set(stored_columns(con, table)):
        return None, None
    query = f"SELECT environment FROM {quoted(table)} WHERE id = ? AND length(environment) <= ? LIMIT 1"
    try:
        row = con.execute(query, [number, _LONGEST_ENVIRONMENT]).fetchone()
        environment = json.loads(row[0]) if row else {}
    except (sqlite3.Error, TypeError, ValueError, RecursionError):
        return None, None
    if not isinstance(environment, dict):
        return None, None
    rank, world = (rank_number(environment.get(name)) for name in ("RANK", "WORLD_SIZE"))
    return (rank, world) if rank is not None and world is not None and rank < world else (None, None)


class _Tables:
    """The tables of one process in a database."""

    def __init__(self, database: Database, part: str, number: int, sink: Sink) -> None:
        self._database = database
        self._part = part
        self._number = number
        self._sink = sink
        self._strings = self._named("string", "string")
        self._agents = self._unique("info_agent", "type", "product_name", "name", type_index="int")
        threads = self._unique("info_thread", tid="int")
        self._threads = threads.select(pl.col("id").alias("tid"), pl.col("tid").alias("thread"))
        self._process = self._unique("info_process", nid="int", pid="int").filter(pl.col("id") == number)

    def _fetch(self, table: str, texts: Sequence[str] = (), numbers: Sequence[str] = ()) -> pl.DataFrame:
        columns = {**dict.fromkeys(numbers, "int"), **dict.fromkeys(texts, "text")}
        return self._database.fetch(f"rocpd_{table}{self._part}", columns)  # type: ignore[arg-type]

    def _unique(self, table: str, *texts: str, **numbers: str) -> pl.DataFrame:
        """Rows that others name by their `id`; of rows with equal numbers, which no tool writes, the first."""
        return self._fetch(table, texts, ("id", *numbers)).unique("id", keep="first", maintain_order=True)

    def _named(self, table: str, *texts: str) -> pl.DataFrame:
        """`id` and `said`, the first of these texts that exists."""
        return self._unique(table, *texts).select("id", pl.coalesce(*texts).alias("said"))

    def _timed(self, table: str, texts: Sequence[str] = (), numbers: Sequence[str] = ()) -> pl.DataFrame:
        """The rows of the process with a possible time; a note counts the other rows."""
        rows = self._fetch(table, texts, ("pid", "tid", "start", "end", "event_id", *numbers))
        rows = rows.filter(pl.col("pid") == self._number)
        start, end = pl.col("start"), pl.col("end")
        sound = rows.filter(
            start.is_between(0, _LATEST_NS) & (end >= start) & (end.cast(pl.Float64) - start <= _LONGEST_NS)
        )
        if bad := rows.height - sound.height:
            self._sink.note(
                "degraded", messages.impossible_durations(n=bad),
                where=f"{self._database.path}, table rocpd_{table}{self._part}", lost=messages.LOST_EVENTS,
            )  # fmt: skip
        return self._with_thread(sound.with_columns((end - start).alias("dur_ns")).rename({"start": "start_ns"}))

    def _with_thread(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with the system's numbers of process and thread."""
        pid = self._process["pid"].drop_nulls()
        rows = rows.join(self._threads, on="tid", how="left", maintain_order="left")
        return rows.with_columns(
            pl.lit(pid[0] if len(pid) else self._number, pl.Int64).alias("pid"),
            pl.coalesce("thread", "tid").alias("tid"),
        ).drop("thread")

    def _look_up(self, rows: pl.DataFrame, column: str, found: pl.DataFrame, name: str) -> pl.DataFrame:
        """The rows with the text, under `name`, that `found` has for the number in `column`."""
        texts = found.select(pl.col("id").alias(column), pl.col("said").alias(name))
        return rows.join(texts, on=column, how="left", maintain_order="left")

    def events(self) -> pl.DataFrame:
        """By `event_id`: the number of the call, of the call around it, the category, and the program's own text."""
        numbers = dict.fromkeys(("category_id", "stack_id", "parent_stack_id"), "int")
        rows = self._unique("event", "extdata", **numbers)
        rows = self._look_up(rows, "category_id", self._strings, "category").drop("category_id")
        told = pl.when(pl.col("category").str.starts_with("MARKER")).then("extdata")
        return rows.with_columns(told.str.json_path_match("$.message").alias("message")).drop("extdata").rename(
            {"id": "event_id"}
        )  # fmt: skip

    def regions(self, events: pl.DataFrame) -> pl.DataFrame:
        """Calls of HIP and HSA as runtime and driver calls, all other regions of programs and libraries as marks."""
        rows = self._timed("region", numbers=("name_id",)).join(
            events, on="event_id", how="left", maintain_order="left"
        )
        return _told(self._look_up(rows, "name_id", self._strings, "called"))

    def samples(self, events: pl.DataFrame) -> pl.DataFrame:
        """Samples that end as they begin: marks of the program."""
        tracks = self._unique("track", pid="int", tid="int", name_id="int").rename({"id": "track_id"})
        rows = self._fetch("sample", numbers=("track_id", "timestamp", "event_id"))
        rows = rows.filter(pl.col("timestamp").is_between(0, _LATEST_NS)).join(tracks, on="track_id")
        rows = self._with_thread(rows.filter(pl.col("pid") == self._number)).join(events, on="event_id")
        rows = rows.filter(pl.col("category").str.starts_with("MARKER")).rename({"timestamp": "start_ns"})
        rows = rows.with_columns(pl.lit(0, pl.Int64).alias("dur_ns"))
        return _told(self._look_up(rows, "name_id", self._strings, "called"))

    def tasks(self, events: pl.DataFrame, regions: pl.DataFrame) -> pl.DataFrame:
        """Kernels and copies, each with the number of the call that launched it."""
        rows = pl.concat([self._kernels(), self._copies()], how="diagonal")
        rows = rows.join(events.select("event_id", "stack_id"), on="event_id", how="left", maintain_order="left")
        # The call above an HSA call is the HIP call that made it.
        above = regions.filter((pl.col("kind") == "driver") & (pl.col("parent_stack_id") > 0))
        above = above.select("stack_id", "parent_stack_id").unique("stack_id", keep="first", maintain_order=True)
        for _ in range(_MOST_LAYERS if above.height else 0):
            rows = rows.join(above, on="stack_id", how="left", maintain_order="left").with_columns(
                pl.coalesce("parent_stack_id", "stack_id").alias("stack_id")
            ).drop("parent_stack_id")  # fmt: skip
        agents = self._agents.select(pl.col("id").alias("agent"), pl.col("type_index").alias("device_id"))
        rows = rows.join(agents, on="agent", how="left", maintain_order="left")
        # Number 0 belongs to no call.
        call = pl.when(pl.col("stack_id") > 0).then("stack_id").alias("correlation")
        return rows.select(
            "what", pl.coalesce("name", pl.lit("unknown")).alias("name"), "agent", "device_id", "stream", "start_ns",
            "dur_ns", call, "blocks", "bytes", "direction",
        )  # fmt: skip

    def _kernels(self) -> pl.DataFrame:
        grid = [f"{what}_size_{axis}" for axis in "xyz" for what in ("grid", "workgroup")]
        rows = self._timed("kernel_dispatch", numbers=("agent_id", "kernel_id", "queue_id", "stream_id", *grid))
        # A kernel without a display name has its name in the code.
        symbols = self._named("info_kernel_symbol", "display_name", "kernel_name")
        rows = self._look_up(rows, "kernel_id", symbols, "name")
        by_queue = rows["stream_id"].n_unique() < 2 < 1 + rows["queue_id"].n_unique()
        groups = [_ceiled(pl.col(f"grid_size_{axis}"), pl.col(f"workgroup_size_{axis}")) for axis in "xyz"]
        return rows.select(
            pl.lit("kernel").alias("what"), "name", pl.col("agent_id").alias("agent"),
            pl.col("queue_id" if by_queue else "stream_id").alias("stream"), "start_ns", "dur_ns", "event_id",
            (groups[0] * groups[1] * groups[2]).cast(pl.Int64, strict=False).alias("blocks"),
        )  # fmt: skip

    def _copies(self) -> pl.DataFrame:
        numbers = ("name_id", "dst_agent_id", "src_agent_id", "size", "stream_id")
        rows = self._look_up(self._timed("memory_copy", numbers=numbers), "name_id", self._strings, "called")
        way = pl.col("called").str.extract("(HOST_TO_DEVICE|DEVICE_TO_HOST|DEVICE_TO_DEVICE|HOST_TO_HOST)")
        between = (way == "DEVICE_TO_DEVICE") & (pl.col("dst_agent_id") != pl.col("src_agent_id"))
        word, direction = (
            pl.when(between).then(pl.lit(_BETWEEN[place])).otherwise(
                way.replace_strict({name: said[place] for name, said in _WAYS.items()}, default=None,
                                   return_dtype=pl.String)
            )
            for place in (0, 1)
        )  # fmt: skip
        return rows.select(
            pl.lit("memcpy").alias("what"), (pl.lit("Memcpy ") + word.fill_null("")).alias("name"),
            pl.when(way == "HOST_TO_DEVICE").then("dst_agent_id").otherwise("src_agent_id").alias("agent"),
            pl.col("stream_id").alias("stream"), "start_ns", "dur_ns", "event_id",
            pl.col("size").alias("bytes"), direction.alias("direction"),
        )  # fmt: skip

    def about(self, tasks: pl.DataFrame) -> dict[str, object]:
        """What is known about the rank: its device, chip and host."""
        used = self._agents.filter(pl.col("id").is_in(tasks["agent"].drop_nulls().unique().to_list()))
        chips = used.select(pl.coalesce("product_name", "name"))["product_name"].drop_nulls().unique().to_list()
        devices = used["type_index"].drop_nulls().unique().to_list()
        nodes = self._named("info_node", "hostname")
        hosts = nodes.filter(pl.col("id").is_in(self._process["nid"].drop_nulls().to_list()))["said"].drop_nulls()
        chip = legible(chips[0]) if len(chips) == 1 else None
        vendor, family = vendor_of(chip or "")
        return {
            "vendor": vendor or "amd", "chip": chip or family, "host": legible(hosts[0]) if len(hosts) else None,
            "device_id": devices[0] if len(devices) == 1 else None,
        }  # fmt: skip


def _told(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `kind`, `name` and `domain`: a mark has the program's text, else its function's name."""
    category = pl.col("category").fill_null("")
    hip, hsa = (category.str.starts_with(word) for word in ("HIP", "HSA"))
    kind = pl.when(hip).then(pl.lit("runtime")).when(hsa).then(pl.lit("driver")).otherwise(pl.lit("mark"))
    own = category.str.starts_with("MARKER") | (category == "")
    return rows.select(
        kind.alias("kind"), pl.coalesce("message", "called", pl.lit("unknown")).alias("name"), "pid", "tid", "start_ns",
        "dur_ns", "stack_id", "parent_stack_id",
        pl.when(~own).then(category.str.extract("^([A-Z]+)")).alias("domain"),
    )  # fmt: skip


def _ceiled(items: pl.Expr, group: pl.Expr) -> pl.Expr:
    """The number of groups for so many items, as a float, which cannot overflow; null if a size is missing."""
    return pl.when((items > 0) & (group > 0)).then((items.cast(pl.Float64) / group).ceil())


def _note(path: Path, host: pl.DataFrame, sink: Sink) -> None:
    """Notes on what a database of this profiler lacks."""
    kinds = host["kind"]
    if not kinds.is_in(["runtime", "driver"]).any():
        sink.note(
            "degraded", messages.NO_HOST_CALL, where=str(path), lost=messages.LOST_HOST_CAUSES,
            hint=messages.DO_ROCPROF,
        )  # fmt: skip
    if not (kinds == "op").any():
        sink.note("info", messages.NO_OPERATOR, where=str(path), lost=messages.LOST_SHAPES, hint=messages.DO_ROCTX)
