"""Reads Chrome trace JSON into columns: the engine of the Ascend text reader and the Kineto reader.

Traps: two outer forms (array, object with `traceEvents`), and keys before and after the events. `ts` is text, a number,
or a number with more digits than a double holds. Ids exceed 64 bits. A file may be cut off, hold illegal bytes, or be
packed with gzip. DuckDB parses the events straight to columns; `chrome_repair` handles files that DuckDB refuses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import duckdb

from hermes.base.errors import TraceFormatError
from hermes.base.failure_message import CutShortError, reason
from hermes.base.units import whole_number
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.chrome_events_position import EventsPosition, place_of, utf8
from hermes.profiles.read.chrome_repair import repair
from hermes.profiles.read.file_slice import slice_urls
from hermes.profiles.read.query import literal, ns_of_double, ns_sql, only_row
from hermes.profiles.read.table_sink import Sink
from hermes.store.messages import NO_END_MARK

_GZIP = b"\x1f\x8b"
_MIN_FREE_DISK = 1 << 30
# The largest time in us whose nanoseconds a double holds exactly; a larger `ts` with a fraction must stay text.
_EXACT_US = 2**53 // 1000
# The latest time in ns: twice its value still fits into 64 bits, so that no start plus duration can overflow.
_LATEST_NS = 2**62
# The longest capture in ns: an event further from the others, or longer, is damage that would stretch every window.
_LONGEST_NS = 86_400 * 10**9
_WORTH_HALVING = 16 << 20
# Small groups: the group being written stays in the processor's cache and within the memory limit.
_ROW_GROUP = 20_480
# Names and shapes repeat within a group; for ids and times no dictionary need be tried for long.
_DICTIONARY = 2_000
_SEAM = re.compile(rb'\}(\s*,\s*)\{\s*"(?:ph|name)"\s*:')
_LONG_TS = re.compile(rb'"ts"\s*:\s*(\d{13,})\.(\d*[1-9])')
_TEXT_TS = re.compile(rb'"ts"\s*:\s*"')
_BARE_TS = re.compile(rb'(?<!\\)"ts"(\s*:\s*)(-?\d+\.\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedTrace:
    """The events of one trace file as a Parquet file, and the keys beside them.

    `events` is a SQL expression with the columns `ph, name, cat, pid, tid, ts_ns, dur_ns, id, args`: all text, except
    the integer nanoseconds. `args` is a struct of the requested arguments as text (lists and objects as JSON text).
    `header` holds the other top-level keys of an object-form file.
    """

    con: duckdb.DuckDBPyConnection
    events: str
    header: dict[str, Any]
    place: EventsPosition

    def counters(self) -> str:
        """SQL that reads the file once more for its counter events: `name, pid, ts_ns`, and `args` as a map.

        The SQL is valid until another file is read through `con`.
        """
        (url,) = slice_urls(self.con, self.place.path, [(self.place.start, self.place.end)])
        columns = ", ".join(f"'{name}': 'VARCHAR'" for name in ("ph", "name", "pid", "ts"))
        source = f"read_json('{url}', format='array', columns={{{columns}, 'args': 'MAP(VARCHAR, VARCHAR)'}})"
        return f"(SELECT name, pid, {ns_sql('ts')} AS ts_ns, args FROM {source} WHERE ph = 'C')"


def sparse_sql(name: str) -> str:
    """SQL for the text of one argument that `scan` was given as sparse."""
    return f"""json_extract_string(sparse, '$."{name}"')"""


def sniff(head: bytes) -> bool:
    """Whether the first bytes of a (decompressed) file may open a Chrome trace."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        return text[1:].lstrip()[:1] in (b"{", b"]", b"")
    return text.startswith(b"{") and (b'"traceEvents"' in text or b'"schemaVersion"' in text)


def head_of(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, decompressed if it is gzip; empty if it cannot be read."""
    head = b""
    try:
        with path.open("rb") as raw:
            if raw.read(2) != _GZIP:
                raw.seek(0)
                return raw.read(size)
            raw.seek(0)
            for block in _unpacked(raw, size):
                head += block
                if len(head) >= size:
                    break
    except (OSError, EOFError, zlib.error):
        # The bytes before the damage still count as a head.
        pass
    return head[:size]


def scan(
    path: Path,
    arguments: Sequence[str],
    sink: Sink,
    spellings: Mapping[str, str] | None = None,
    *,
    one_of: Sequence[str] = (),
    integers: Collection[str] = (),
    sparse: Collection[str] = (),
    helpers: Sequence[str] = (),
    derived: Mapping[str, str] | None = None,
    memory_mb: int = 300,
) -> ScannedTrace:
    """Read the events of a trace, with the given keys of `args`.

    Of the keys `one_of`, an event usually has one: they share the columns `key` and `text`; `key` is null if an event
    has several. Arguments among `integers` become 64-bit integers, null if they are no integers. Arguments among
    `sparse`, which few events have, travel in one column `sparse` as JSON text, from which `sparse_sql` takes them: an
    empty column costs as much as a full one. All three keep the written data small, which is most of the cost.
    `derived` names further columns by their SQL over the others: values that every query needs are computed once.
    `helpers` are keys that only this SQL sees. `memory_mb` limits the memory of the scan for buffers and row groups.
    With too little memory the scan spills, which costs time and saves nothing.

    `spellings` maps another spelling of a key to the one in `arguments`, equally long: SQL cannot hold two keys that
    differ in case alone.

    Raises `TraceFormatError` if not one event can be read. A damaged file is read up to and after the damage, with a
    degraded note that counts what was lost.
    """
    plain = _decompressed(path, sink)
    place = place_of(path, plain)
    wanted = _Wanted(
        arguments=arguments, one_of=one_of, integers=integers, sparse=sparse, helpers=helpers, derived=derived or {},
        spellings=spellings, memory_mb=memory_mb,
    )  # fmt: skip
    out = sink.scratch / "event.parquet"
    times = _time_form(plain, place.start) if place is not None else "text"
    if place is not None and times == "long":
        place = _with_text_ts(place, sink.scratch / "exact.json")
    try:
        if place is None:
            raise duckdb.InvalidInputException("the list of events has no end")
        out = _extract(place, wanted, out, sink, numbers=times == "number")
    except (duckdb.IOException, duckdb.OutOfMemoryException):
        # An error of the machine, not of the file.
        raise
    except (duckdb.Error, UnicodeDecodeError) as refused:
        before = place.header if place else {}
        place, out = _salvage(path, plain, wanted, sink.scratch / "rescued.parquet", sink, refused)
        place = dataclasses.replace(place, header=utf8(place.header) | before)
    sink.expect(place.end - place.start)
    con = sink.connect()
    events = f"read_parquet('{str(out).replace(chr(39), chr(39) * 2)}')"
    good = _sound_times(con, events, path, sink)
    sound = f"(SELECT * FROM {events} WHERE {good})" if good else events
    return ScannedTrace(con=con, events=sound, header=place.header, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The arguments of one call of `scan`."""

    arguments: Sequence[str]
    one_of: Sequence[str]
    integers: Collection[str]
    sparse: Collection[str]
    helpers: Sequence[str]
    derived: Mapping[str, str]
    memory_mb: int
    spellings: Mapping[str, str] | None


def _decompressed(path: Path, sink: Sink) -> Path:
    with path.open("rb") as raw:
        if raw.read(2) != _GZIP:
            return path
    plain = sink.scratch / "plain.json"
    try:
        with path.open("rb") as raw, plain.open("wb") as out:
            for block in _unpacked(raw):
                out.write(block)
                if shutil.disk_usage(sink.scratch).free < _MIN_FREE_DISK:
                    raise TraceFormatError(
                        path, refusals.UNPACKING_FILLS_DISK, lost=messages.LOST_FILE,
                        hint=refusals.DO_FREE_SPACE,
                    )  # fmt: skip
    except (EOFError, OSError, zlib.error) as cut:
        if not plain.stat().st_size:
            raise TraceFormatError(
                path, refusals.no_gzip(why=reason(cut)), lost=messages.LOST_FILE, hint=messages.DO_COPY_FILE
            ) from cut
        sink.note(
            "degraded", messages.CUT_GZIP,
            where=f"{path}, after {plain.stat().st_size} unpacked bytes", lost=messages.LOST_BEHIND_PLACE,
            hint=messages.DO_COPY_FILE,
        )  # fmt: skip
    return plain


def _unpacked(raw: BinaryIO, block: int = 1 << 22) -> Iterator[bytes]:
    """The content of a gzip file, up to the damage if there is one; then `EOFError` or `zlib.error`.

    The module gzip loses the block in which a file is cut off.
    """
    engine = zlib.decompressobj(wbits=31)
    packed = raw.read(1 << 20)
    while packed:
        yield engine.decompress(packed, block)
        if engine.eof:
            # Members may follow each other; zeros after the last one are padding.
            packed = (engine.unused_data or raw.read(1 << 20)).lstrip(b"\x00")
            engine = zlib.decompressobj(wbits=31)
            if not packed:
                return
        else:
            packed = engine.unconsumed_tail or raw.read(1 << 20)
    raise CutShortError(NO_END_MARK)


def _time_form(plain: Path, start: int) -> Literal["number", "long", "text"]:
    """How the file writes `ts`, by its first events: a number, a number that a double cannot hold, or a text."""
    with plain.open("rb") as raw:
        raw.seek(start)
        sample = raw.read(1 << 22)
    times = (whole_number(match.group(1).decode()) for match in _LONG_TS.finditer(sample))
    if any(time is None or time > _EXACT_US for time in times):
        return "long"
    return "text" if _TEXT_TS.search(sample) else "number"


def _with_text_ts(place: EventsPosition, out: Path) -> EventsPosition:
    """A copy of the events with each fractional `ts` as text: no parser then converts it to a double."""
    left = place.end - place.start
    with place.path.open("rb") as raw, out.open("wb") as copy:
        raw.seek(place.start)
        rest = b""
        while left or rest:
            block = raw.read(min(left, 1 << 23))
            left -= len(block)
            block = rest + block
            cut = block.rfind(b"{") if left else len(block)
            cut = cut if cut > 0 else len(block)
            rest = block[cut:]
            copy.write(_BARE_TS.sub(rb'"ts"\1"\2"', block[:cut]))
        end = copy.tell()
    return EventsPosition(path=out, start=0, end=end, header=place.header)


def _extract(place: EventsPosition, wanted: _Wanted, out: Path, sink: Sink, *, numbers: bool) -> Path:
    """Write the events of a file beside `out`, over a separate connection: closing it releases its memory.

    Each attempt writes under a name of its own, which is returned: DuckDB may still be deleting the file that a refused
    attempt began to write.

    If `numbers` says that times are numbers, they are read as numbers. If a time is no number or no double, DuckDB
    refuses; then all times are read again as text, which takes half as long again.
    """
    with contextlib.closing(sink.connect(wanted.memory_mb)) as con:
        con.execute("SET preserve_insertion_order = false")
        whole = (place.start + 1, place.end - 1)
        halves = _halves(*whole, place.path)
        attempts = [(halves, True)] if numbers else []
        attempts += [(halves, False), ([whole], False)]
        for attempt, (stretches, typed) in enumerate(attempts, start=1):
            urls = slice_urls(con, place.path, stretches, wanted.spellings, bracket=True)
            try:
                here = out.with_stem(f"{out.stem}{attempt}")
                con.execute(_extraction(urls, wanted, here, typed=typed))
                return here
            except duckdb.Error:
                if attempt == len(attempts):
                    raise
    raise AssertionError("the last attempt returns or raises")


def _halves(start: int, end: int, path: Path) -> list[tuple[int, int]]:
    """The elements of the array in two stretches, since DuckDB reads one array with one thread.

    The cut is between two events, found by how an event begins: inside a text the quotes would be escaped. If an
    argument holds a list of objects that begin alike, the halves are no arrays, and the whole is read at once.
    """
    if end - start < _WORTH_HALVING:
        return [(start, end)]
    with path.open("rb") as raw:
        raw.seek(middle := (start + end) // 2)
        seam = _SEAM.search(raw.read(1 << 20))
    return [(start, middle + seam.start(1)), (middle + seam.end(1), end)] if seam else [(start, end)]


def _extraction(urls: Sequence[str], wanted: _Wanted, out: Path, *, typed: bool) -> str:
    arguments, one_of, integers = wanted.arguments, wanted.one_of, wanted.integers
    keys = ", ".join(
        f'"{name}" {"BIGINT" if typed and name in integers else "VARCHAR"}'
        for name in (*arguments, *one_of, *wanted.helpers)
    )
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in ("ph", "name", "cat", "pid", "tid", "id"))
    time = "DOUBLE" if typed else "VARCHAR"
    listed = ", ".join(f"'{url}'" for url in urls)
    source = (
        f"read_json([{listed}], format='array', "
        f"columns={{{columns}, 'ts': '{time}', 'dur': '{time}', 'args': 'STRUCT({keys})'}})"
    )
    packed = ", ".join(
        f'"{name}" := ' + (f'TRY_CAST(args."{name}" AS BIGINT)' if name in integers else f'args."{name}"')
        for name in arguments
        if name not in wanted.sparse
    )
    args = f"struct_pack({packed}) AS args"
    if wanted.sparse:
        some = ", ".join(f'args."{name}"' for name in wanted.sparse)
        pairs = ", ".join(f'"{name}" := args."{name}"' for name in wanted.sparse)
        args += f", CASE WHEN coalesce({some}) IS NOT NULL THEN to_json(struct_pack({pairs})) END AS sparse"
    if one_of:
        named = " ".join(f"""WHEN args."{name}" IS NOT NULL THEN '{name}'""" for name in one_of)
        texts = ", ".join(f'args."{name}"' for name in one_of)
        count = " + ".join(f'(args."{name}" IS NOT NULL)::INT' for name in one_of)
        args += (
            f", CASE WHEN coalesce({texts}) IS NULL OR {count} > 1 THEN NULL {named} END AS key, "
            f"coalesce({texts}) AS text"
        )
    derived = "".join(f", {sql} AS {name}" for name, sql in wanted.derived.items())
    ns = ns_of_double if typed else ns_sql
    return (
        f"COPY (SELECT ph, name, cat, pid, tid, {ns('ts')} AS ts_ns, "
        f"CASE WHEN dur IS NULL THEN 0 ELSE coalesce({ns('dur')}, -1) END AS dur_ns, id, {args}{derived} "
        f"FROM {source}) TO {literal(out)} "
        "(FORMAT parquet, COMPRESSION uncompressed, WRITE_BLOOM_FILTER false, "
        f"ROW_GROUP_SIZE {_ROW_GROUP}, DICTIONARY_SIZE_LIMIT {_DICTIONARY})"
    )


def _salvage(
    path: Path, plain: Path, wanted: _Wanted, out: Path, sink: Sink, refused: Exception
) -> tuple[EventsPosition, Path]:
    repaired = sink.scratch / "repaired.json"
    found = repair(plain, repaired)
    if not found.events:
        raise TraceFormatError(
            path, refusals.no_readable_event(why=_first_line(refused)), lost=messages.LOST_FILE,
            hint=refusals.DO_STOP_PROFILER,
        ) from refused  # fmt: skip
    try:
        place = EventsPosition(path=repaired, start=0, end=repaired.stat().st_size, header=found.header)
        out = _extract(place, wanted, out, sink, numbers=False)
    except duckdb.Error as still:
        raise TraceFormatError(
            path, refusals.beyond_repair(why=_first_line(still)), lost=messages.LOST_FILE, hint=refusals.DO_SEND_LINES,
        ) from still  # fmt: skip
    sink.note(
        "degraded",
        messages.no_legal_json(why=found.reason or _first_line(refused), n=found.events),
        where=f"{path}, byte {found.first_fault}", lost=found.lost, hint=messages.DO_KILLED_WRITING,
    )  # fmt: skip
    return place, out


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__


def _sound_times(con: duckdb.DuckDBPyConnection, events: str, path: Path, sink: Sink) -> str:
    """SQL for the events with a possible time, empty if all have one; notes count the other events."""
    possible = f"ts_ns BETWEEN -{_LATEST_NS} AND {_LATEST_NS}"
    timeless = "count(*) FILTER (ph <> 'M' AND NOT coalesce({}, false))"
    first, last, without, backward, events_read = only_row(
        con,
        f"SELECT min(ts_ns) FILTER (ph <> 'M'), max(ts_ns) FILTER (ph <> 'M'), {timeless.format(possible)}, "
        f"count(*) FILTER (dur_ns NOT BETWEEN 0 AND {_LONGEST_NS}), count(*) FROM {events}",
    )
    near = possible
    if first is not None and last - first > _LONGEST_NS:
        # An estimate suffices: its error is far below a day.
        (middle,) = only_row(con, f"SELECT approx_quantile(ts_ns, 0.5) FROM {events} WHERE ph = 'X' AND {possible}")
        near = possible if middle is None else f"ts_ns BETWEEN {middle - _LONGEST_NS} AND {middle + _LONGEST_NS}"
        (without,) = only_row(con, f"SELECT {timeless.format(near)} FROM {events}")
    if not events_read:
        sink.note("degraded", messages.NO_EVENT, where=str(path), lost=messages.LOST_ALL_OF_IT, hint=messages.DO_AGAIN)
    if without:
        sink.note(
            "degraded",
            messages.impossible_starts(n=without),
            where=f"{path}, key ts",
            lost=messages.LOST_EVENTS,
        )
    if backward:
        sink.note(
            "degraded", messages.impossible_durations(n=backward),
            where=f"{path}, key dur", lost=messages.LOST_EVENTS,
        )  # fmt: skip
    sound = f"(ph = 'M' OR coalesce({near}, false)) AND dur_ns BETWEEN 0 AND {_LONGEST_NS}"
    return sound if without or backward else ""
