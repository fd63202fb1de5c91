"""Chrome trace JSON to columns: the engine under the Ascend text reader and the Kineto reader.

Traps met here: two outer forms (array, object with `traceEvents`); keys before and after the events; `ts` as text, as
number, and as a number with more digits than a double holds; ids beyond 64 bits; a file cut off by a killed job;
illegal bytes; gzip. DuckDB parses the events straight to columns; what it refuses goes through `chrome_repair`.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import io
import json
import re
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

from hermes.base.errors import TraceFormatError
from hermes.read.chrome_repair import repair
from hermes.read.query import literal, ns_sql, one
from hermes.read.sink import Sink
from hermes.read.slice import slice_urls

_GZIP = b"\x1f\x8b"
_HEAD_LIMIT = 64 << 20
_TAIL_LIMIT = 8 << 20
_MIN_FREE_DISK = 1 << 30
# A double holds whole nanoseconds of this many microseconds; beyond, a numeric `ts` with a fraction must stay text.
_EXACT_US = 2**53 // 1000
# Twice this still fits 64 bits: no start plus duration can overflow.
_LATEST_NS = 2**62
# No capture lasts that long: an event further off the others, or longer, is damage that would stretch every window.
_LONGEST_NS = 86_400 * 10**9
_WORTH_HALVING = 16 << 20
_SEAM = re.compile(rb'\}(\s*,\s*)\{\s*"(?:ph|name)"\s*:')
_LONG_TS = re.compile(rb'"ts"\s*:\s*(\d{13,})\.(\d*[1-9])')
_BARE_TS = re.compile(rb'(?<!\\)"ts"(\s*:\s*)(-?\d+\.\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The events of one file as a Parquet file, and the keys beside them.

    `events` is a SQL expression with the columns `ph, name, cat, pid, tid, ts_ns, dur_ns, id, args`: text but for the
    integer nanoseconds; `args` a struct of the arguments asked for, as text (lists and objects as JSON text).
    `header` holds the other top-level keys of an object-form file.
    """

    con: duckdb.DuckDBPyConnection
    events: str
    header: dict[str, Any]
    place: _Place

    def counters(self) -> str:
        """SQL that reads the file once more for its counter events: `name, pid, ts_ns`, and `args` as a map.

        Valid until another file is read through `con`.
        """
        (url,) = slice_urls(self.con, self.place.path, [(self.place.start, self.place.end)])
        columns = ", ".join(f"'{name}': 'VARCHAR'" for name in ("ph", "name", "pid", "ts"))
        source = f"read_json('{url}', format='array', columns={{{columns}, 'args': 'MAP(VARCHAR, VARCHAR)'}})"
        return f"(SELECT name, pid, {ns_sql('ts')} AS ts_ns, args FROM {source} WHERE ph = 'C')"


def sniff(head: bytes) -> bool:
    """Whether the first bytes of a (decompressed) file may open a Chrome trace."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        return text[1:].lstrip()[:1] in (b"{", b"]", b"")
    return text.startswith(b"{") and (b'"traceEvents"' in text or b'"schemaVersion"' in text)


def head_of(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, decompressed if it is gzip; empty when it cannot be read."""
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
        # What stands before the damage is still a head.
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
    memory_mb: int = 300,
) -> Scan:
    """Read the events of a trace, with these keys of `args`.

    Of the keys `one_of`, an event has one as a rule: they share the columns `key` and `text`, and `more` tells the
    events that have several. Arguments among `integers` become 64-bit integers, null where they are none. Both keep
    small what is written down, which is most of the cost. `memory_mb` bounds what the scan takes for its buffers and
    for the row groups that it is writing; with too little it spills, which costs time and saves nothing.

    `spellings` maps another spelling of a key to the one in `arguments`, equally long: SQL cannot hold two keys that
    differ in case alone.

    Raises `TraceFormatError` when not one event can be read. A damaged file is read up to and after the damage, with
    a degraded note that counts what was lost.
    """
    plain = _decompressed(path, sink)
    place = _place(path, plain)
    wanted = _Wanted(arguments=arguments, one_of=one_of, integers=integers, spellings=spellings, memory_mb=memory_mb)
    out = sink.scratch / "event.parquet"
    if place is not None and _needs_exact_ts(plain, place.start):
        place = _with_text_ts(place, sink.scratch / "exact.json")
    try:
        if place is None:
            raise duckdb.InvalidInputException("the list of events has no end")
        _extract(place, wanted, out, sink)
    except (duckdb.IOException, duckdb.OutOfMemoryException):
        # The machine's fault, not the file's.
        raise
    except (duckdb.Error, UnicodeDecodeError) as refused:
        # A new name: DuckDB may still be deleting what it began to write under the old one.
        out = sink.scratch / "rescued.parquet"
        before = place.header if place else {}
        place = _salvage(path, plain, wanted, out, sink, refused)
        place = dataclasses.replace(place, header=_utf8(place.header) | before)
    con = sink.connect()
    events = f"read_parquet('{str(out).replace(chr(39), chr(39) * 2)}')"
    good = _sound_times(con, events, path, sink)
    return Scan(con=con, events=f"(SELECT * FROM {events} WHERE {good})", header=place.header, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What `scan` was asked for."""

    arguments: Sequence[str]
    one_of: Sequence[str]
    integers: Collection[str]
    memory_mb: int
    spellings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the array of events lies in a (decompressed) file: `[start, end)`, brackets included."""

    path: Path
    start: int
    end: int
    header: dict[str, Any]


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
                        path, "unpacking it would fill the disk", lost="the whole file",
                        hint="free some space, or point the cache elsewhere with HERMES_CACHE_DIR",
                    )  # fmt: skip
    except (EOFError, OSError, zlib.error) as cut:
        if not plain.stat().st_size:
            raise TraceFormatError(
                path,
                f"not a readable gzip file ({cut})",
                lost="the whole file",
                hint="copy it again from the job",
            ) from cut
        sink.note(
            "degraded", "the gzip file is cut off or damaged",
            where=f"{path}, after {plain.stat().st_size} unpacked bytes", lost="the events behind that place",
            hint="copy it again from the job",
        )  # fmt: skip
    return plain


def _unpacked(raw: BinaryIO, block: int = 1 << 22) -> Iterator[bytes]:
    """What a gzip file holds, up to the damage if there is one; then `EOFError` or `zlib.error`.

    The module gzip loses the block in which a file is cut off.
    """
    engine = zlib.decompressobj(wbits=31)
    packed = raw.read(1 << 20)
    while packed:
        yield engine.decompress(packed, block)
        if engine.eof:
            # Members may follow each other; zeros behind the last are padding.
            packed = (engine.unused_data or raw.read(1 << 20)).lstrip(b"\x00")
            engine = zlib.decompressobj(wbits=31)
            if not packed:
                return
        else:
            packed = engine.unconsumed_tail or raw.read(1 << 20)
    raise EOFError("it ends before its end mark")


def head_keys(text: str) -> tuple[dict[str, Any], int] | None:
    """The top-level keys before `traceEvents`, and where the value of that key starts; None if it is not there.

    `text` is the start of an object-form file and may end anywhere.
    """
    keys, at, found = _pairs(text, text.find("{") + 1, until="traceEvents")
    return (keys, at) if found else None


def _pairs(text: str, at: int, *, until: str = "") -> tuple[dict[str, Any], int, bool]:
    """The `"key": value` pairs from `at` on: the keys, where they end, and whether the key `until` ended them."""
    decoder = json.JSONDecoder(strict=False)
    keys: dict[str, Any] = {}
    at = _skip(text, at)
    try:
        while text[at : at + 1] == '"':
            key, colon = decoder.raw_decode(text, at)
            colon = _skip(text, colon)
            if text[colon : colon + 1] != ":":
                break
            value = _skip(text, colon + 1)
            if until and key == until:
                return keys, value, True
            keys[key], at = decoder.raw_decode(text, value)
            at = _skip(text, at)
            if text[at : at + 1] != ",":
                break
            at = _skip(text, at + 1)
    except (json.JSONDecodeError, RecursionError, IndexError):
        return keys, at, False
    return keys, at, False


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _place(path: Path, plain: Path) -> _Place | None:
    """Where the events are; None when the file has no proper end. Raises when it has no proper start."""
    size = plain.stat().st_size
    if not size:
        raise TraceFormatError(
            path, "the file is empty", lost="the whole file", hint="was the job killed before it wrote?"
        )
    with plain.open("rb") as raw:
        head = raw.read(1 << 20)
        opening = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if opening == b"[":
            return _array_place(plain, raw, head.index(b"["), size)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise TraceFormatError(
                path, "the file is in UTF-16", lost="the whole file", hint="write it as UTF-8: iconv -f UTF-16 -t UTF-8"
            )
        if opening != b"{":
            raise TraceFormatError(
                path, "neither a JSON array nor an object", place="at its start", lost="the whole file",
                hint="Chrome traces start with [ or {; is this another kind of file?",
            )  # fmt: skip
        keys, start = _object_start(path, raw, head)
        if start is None:
            return None
        tail = _object_end(raw, start, size)
    return None if tail is None else _Place(path=plain, start=start, end=tail[0], header=keys | tail[1])


def _array_place(path: Path, raw: io.BufferedReader, start: int, size: int) -> _Place | None:
    raw.seek(max(0, size - 4096))
    tail = raw.read().rstrip(b" \t\r\n\x00")
    if not tail.endswith(b"]"):
        return None
    return _Place(path=path, start=start, end=max(0, size - 4096) + len(tail), header={})


def _object_start(path: Path, raw: io.BufferedReader, head: bytes) -> tuple[dict[str, Any], int | None]:
    while True:
        # latin-1 keeps one character a byte, so that places in the text are places in the file.
        found = head_keys(head.decode("latin-1"))
        if found is not None:
            keys = {k: _utf8(v) for k, v in found[0].items()}
            opens = head[found[1] : found[1] + 1] == b"["
            if not opens:
                raise TraceFormatError(path, "traceEvents is not a list", lost="the whole file", hint="is it a trace?")
            return keys, found[1]
        more = raw.read(len(head)) if len(head) < _HEAD_LIMIT else b""
        if not more:
            break
        head += more
    if b'"traceEvents"' in head:
        return {}, None
    raise TraceFormatError(
        path,
        "no traceEvents in it",
        lost="the whole file",
        hint="is it a trace? Chrome traces hold a list traceEvents",
    )


def _utf8(value: Any) -> Any:
    """Undo the latin-1 reading of a header value."""
    if isinstance(value, str):
        try:
            return value.encode("latin-1").decode("utf-8")
        except UnicodeError:
            # It was written with JSON's escapes; half of a surrogate pair among them has no UTF-8.
            return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_utf8(item) for item in value]
    if isinstance(value, dict):
        return {_utf8(key): _utf8(item) for key, item in value.items()}
    return value


def _object_end(raw: io.BufferedReader, start: int, size: int) -> tuple[int, dict[str, Any]] | None:
    """End of the events and the keys behind them: the first `]` from which the rest is a proper end of an object."""
    length = 1 << 14
    while True:
        begin = max(start, size - length)
        raw.seek(begin)
        tail = raw.read().decode("latin-1").rstrip(" \t\r\n\x00")
        if not tail.endswith("}"):
            return None
        for match in re.finditer(r'\]\s*(?=\}\Z|,\s*"[^"]*"\s*:)', tail):
            keys, at, _ = _pairs(tail, match.end() + 1) if tail[match.end()] == "," else ({}, match.end(), False)
            if at == len(tail) - 1:
                return begin + match.start() + 1, {key: _utf8(value) for key, value in keys.items()}
        if begin == start or length >= _TAIL_LIMIT:
            return None
        length *= 8


def _needs_exact_ts(plain: Path, start: int) -> bool:
    with plain.open("rb") as raw:
        raw.seek(start)
        sample = raw.read(1 << 22)
    return any(int(match.group(1)) > _EXACT_US for match in _LONG_TS.finditer(sample))


def _with_text_ts(place: _Place, out: Path) -> _Place:
    """A copy of the events in which each fractional `ts` is text, so that no parser makes a double of it."""
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
    return _Place(path=out, start=0, end=end, header=place.header)


def _extract(place: _Place, wanted: _Wanted, out: Path, sink: Sink) -> None:
    """Write the events of a file to `out`, over a connection of its own: closing it gives its memory back."""
    with contextlib.closing(sink.connect(wanted.memory_mb)) as con:
        con.execute("SET preserve_insertion_order = false")
        whole = (place.start + 1, place.end - 1)
        for stretches in (_halves(*whole, place.path), [whole]):
            urls = slice_urls(con, place.path, stretches, wanted.spellings, bracket=True)
            try:
                con.execute(_extraction(urls, wanted, out))
                return
            except duckdb.Error:
                if len(stretches) == 1:
                    raise


def _halves(start: int, end: int, path: Path) -> list[tuple[int, int]]:
    """The elements of the array in two stretches, since DuckDB reads one array with one thread.

    The cut is between two events, told by how an event begins: inside a text the quotes would be escaped. Should an
    argument hold a list of objects that begin alike, the halves are no arrays, and the whole is read at once.
    """
    if end - start < _WORTH_HALVING:
        return [(start, end)]
    with path.open("rb") as raw:
        raw.seek(middle := (start + end) // 2)
        seam = _SEAM.search(raw.read(1 << 20))
    return [(start, middle + seam.start(1)), (middle + seam.end(1), end)] if seam else [(start, end)]


def _extraction(urls: Sequence[str], wanted: _Wanted, out: Path) -> str:
    arguments, one_of = wanted.arguments, wanted.one_of
    keys = ", ".join(f'"{name}" VARCHAR' for name in (*arguments, *one_of))
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in ("ph", "name", "cat", "pid", "tid", "ts", "dur", "id"))
    listed = ", ".join(f"'{url}'" for url in urls)
    source = f"read_json([{listed}], format='array', columns={{{columns}, 'args': 'STRUCT({keys})'}})"
    packed = ", ".join(
        f'"{name}" := ' + (f'TRY_CAST(args."{name}" AS BIGINT)' if name in wanted.integers else f'args."{name}"')
        for name in arguments
    )
    args = f"struct_pack({packed}) AS args"
    if one_of:
        named = " ".join(f"""WHEN args."{name}" IS NOT NULL THEN '{name}'""" for name in one_of)
        texts = ", ".join(f'args."{name}"' for name in one_of)
        count = " + ".join(f'(args."{name}" IS NOT NULL)::INT' for name in one_of)
        args += f", CASE {named} END AS key, coalesce({texts}) AS text, {count} > 1 AS more"
    return (
        f"COPY (SELECT ph, name, cat, pid, tid, {ns_sql('ts')} AS ts_ns, "
        f"CASE WHEN dur IS NULL THEN 0 ELSE coalesce({ns_sql('dur')}, -1) END AS dur_ns, id, {args} FROM {source}) "
        f"TO {literal(out)} (FORMAT parquet, COMPRESSION lz4)"
    )


def _salvage(path: Path, plain: Path, wanted: _Wanted, out: Path, sink: Sink, refused: Exception) -> _Place:
    repaired = sink.scratch / "repaired.json"
    found = repair(plain, repaired)
    if not found.events:
        raise TraceFormatError(
            path, f"no readable event in it ({_first_line(refused)})", lost="the whole file",
            hint="was the job killed while it was writing? Profile again and stop the profiler before the job ends",
        ) from refused  # fmt: skip
    try:
        place = _Place(path=repaired, start=0, end=repaired.stat().st_size, header=found.header)
        _extract(place, wanted, out, sink)
    except duckdb.Error as still:
        raise TraceFormatError(
            path, f"cannot be read even after repair ({_first_line(still)})", lost="the whole file",
            hint="send the first lines of the file with a bug report",
        ) from still  # fmt: skip
    sink.note(
        "degraded",
        f"the trace is not legal JSON ({found.reason or _first_line(refused)}); read {found.events} events of it",
        where=f"{path}, byte {found.first_fault}", lost=found.lost,
        hint="was the job killed while it was writing? Stop the profiler before the job ends",
    )  # fmt: skip
    return place


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__


def _sound_times(con: duckdb.DuckDBPyConnection, events: str, path: Path, sink: Sink) -> str:
    """SQL for the events that have a possible time; the others are counted in notes."""
    # An estimate will do: its error is far below a day.
    possible = f"ts_ns BETWEEN -{_LATEST_NS} AND {_LATEST_NS}"
    (middle,) = one(con, f"SELECT approx_quantile(ts_ns, 0.5) FROM {events} WHERE ph = 'X' AND {possible}")
    near = possible if middle is None else f"ts_ns BETWEEN {middle - _LONGEST_NS} AND {middle + _LONGEST_NS}"
    time = f"coalesce({near}, false)"
    timeless, backward, events_read = one(
        con,
        f"SELECT count(*) FILTER (ph <> 'M' AND NOT {time}), "
        f"count(*) FILTER (dur_ns NOT BETWEEN 0 AND {_LONGEST_NS}), count(*) FROM {events}",
    )
    if not events_read:
        sink.note("degraded", "the trace holds no event", where=str(path), lost="all of it", hint="profile again")
    if timeless:
        sink.note(
            "degraded",
            f"{timeless} events have no possible time: none, or over a day off the others",
            where=f"{path}, key ts",
            lost="these events",
        )
    if backward:
        sink.note(
            "degraded", f"{backward} events have a duration that is negative, longer than a day or no number",
            where=f"{path}, key dur", lost="these events",
        )  # fmt: skip
    return f"(ph = 'M' OR {time}) AND dur_ns BETWEEN 0 AND {_LONGEST_NS}"
