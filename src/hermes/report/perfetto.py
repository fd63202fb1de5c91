"""Writes the timeline for Perfetto: tracks of slices and counters in its native protobuf.

Array operations write a million slices in seconds. A varint may be padded, so every packet of one kind has the same
length, and all packets of a track are one table of bytes. Field numbers are those of Perfetto's `trace.proto`. Slices
of one track must nest: slices that overlap otherwise go to a further track of the same name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.model.timeline import ANALYSIS, FINDINGS, Curve, Lane
from hermes.report.format import harmless_line

_Bytes = NDArray[np.uint8]
_Ints = NDArray[np.int64]

_SEQUENCE = 1
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_EXPLICIT = 3
_CLEARED, _NEEDED = 1, 2
# As wide as the largest value that the field may have.
_TIME_WIDTH, _ID_WIDTH = 9, 5
_LONGEST_NAME = 10_000
_NO_DETAIL = 0
_TOP = 0


def write_timeline(
    lanes: Sequence[Lane], curves: Sequence[Curve], out: BinaryIO, *, say: Callable[[str], str] | None = None
) -> int:
    """Write all lanes and curves; returns the number of slices and samples. Lanes appear in the order given.

    `say` translates names of the analysis; recorded names stay unchanged.
    """
    if say:
        lanes = [_said(lane, say) for lane in lanes]
    names = _Names(pl.concat([lane.rows["name"] for lane in lanes]) if lanes else pl.Series([], dtype=pl.String))
    with_detail = [lane.rows["detail"] for lane in lanes if "detail" in lane.rows.columns]
    details = _Names(pl.concat(with_detail) if with_detail else pl.Series([], dtype=pl.String))
    out.write(_interned(names, details))
    tracks = _Tracks(out)
    written = 0
    for lane in lanes:
        parent = tracks.folder(lane.rank, lane.folder)
        rows = lane.rows.sort("start_ns", "dur_ns", descending=[False, True], maintain_order=True)
        for number, part in enumerate(nested(rows)):
            more = f" ({number + 1})" if number else ""
            track = tracks.add(parent, f"{harmless_line(lane.name)[:_LONGEST_NAME]}{more}")
            out.write(_slices(track, part, names, details))
        written += rows.height
    for curve in curves:
        track = tracks.add(
            tracks.folder(curve.rank, curve.folder), harmless_line(curve.name)[:_LONGEST_NAME], unit=curve.unit
        )
        out.write(_samples(track, curve.rows))
        written += curve.rows.height
    return written


def _said(lane: Lane, say: Callable[[str], str]) -> Lane:
    """A track of the analysis in another language. A finding keeps its code, which readers search for."""
    if lane.folder != ANALYSIS:
        return lane
    rows = lane.rows
    if lane.name == FINDINGS:
        names = {name: f"{name.partition(' ')[0]} {say(name.partition(' ')[2])}" for name in rows["name"].unique()}
        rows = rows.with_columns(pl.col("name").replace(names))
    return dataclasses.replace(lane, name=say(lane.name), rows=rows)


def nested(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows in as few nested parts as possible, sorted by start and then longer first; most need one part."""
    starts = rows["start_ns"].to_list()
    ends = (rows["start_ns"] + rows["dur_ns"]).to_list()
    open_ends: list[list[int]] = [[]]
    part = []
    for start, end in zip(starts, ends, strict=True):
        place = _first_with_room(open_ends, start, end)
        open_ends[place].append(end)
        part.append(place)
    if len(open_ends) == 1:
        yield rows
        return
    numbers = pl.Series(part)
    for place in range(len(open_ends)):
        yield rows.filter(numbers == place)


def _first_with_room(open_ends: list[list[int]], start: int, end: int) -> int:
    """The index of the first part in which a slice nests; ended slices are closed, and a part is added if needed."""
    for place, stack in enumerate(open_ends):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or end <= stack[-1]:
            return place
    open_ends.append([])
    return len(open_ends) - 1


class _Names:
    """Distinct texts and their numbers, from 1."""

    def __init__(self, texts: pl.Series) -> None:
        self.texts = texts.drop_nulls().unique(maintain_order=True)
        self._number = pl.DataFrame({"text": self.texts, "number": np.arange(1, len(self.texts) + 1)})

    def of(self, texts: pl.Series) -> _Ints:
        """The number of each text, 0 for none."""
        rows = texts.alias("text").to_frame().join(self._number, on="text", how="left", maintain_order="left")
        return rows["number"].fill_null(_NO_DETAIL).to_numpy()


class _Tracks:
    """Writes the descriptor of each track once, rank above folder above track."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._known: dict[tuple[int, str], int] = {}
        self._children: dict[int, int] = {}
        self._last = 0

    def folder(self, rank: int, path: str) -> int:
        """The track of a folder of a rank, `a/b` below `a`; an empty path is the rank's own track."""
        if (rank, path) not in self._known:
            if not path:
                self._known[(rank, path)] = self.add(_TOP, f"rank {rank}")
            else:
                above, _, name = path.rpartition("/")
                self._known[(rank, path)] = self.add(self.folder(rank, above), name)
        return self._known[(rank, path)]

    def add(self, parent: int, name: str, *, unit: str | None = None) -> int:
        """Add a track below another track; with a unit it is a counter."""
        self._children[parent] = order = self._children.get(parent, 0) + 1
        above = _field(5, parent) if parent != _TOP else b""
        about = above + _text(2, name) + _field(11, _EXPLICIT) + _field(12, order)
        if unit is not None:
            about += _message(8, _text(6, unit))
        return self._write(about)

    def _write(self, about: bytes) -> int:
        self._last += 1
        descriptor = _field(1, self._last) + about
        self._out.write(_packet(_message(60, descriptor) + _field(10, _SEQUENCE)))
        return self._last


def _slices(track: int, rows: pl.DataFrame, names: _Names, details: _Names) -> bytes:
    """The begins and ends of nested slices by time; at one moment ends come first, and then longer slices first."""
    start, dur = rows["start_ns"].to_numpy(), rows["dur_ns"].to_numpy()
    count = len(start)
    instant = dur == 0
    name = names.of(rows["name"])
    detail = details.of(rows["detail"]) if "detail" in rows.columns else np.zeros(count, dtype=np.int64)
    leaves, arrives = _arrows(rows, "leaves"), _arrows(rows, "arrives")
    kind = np.where(instant, _INSTANT, _BEGIN)
    parts: list[tuple[_Ints, _Bytes]] = []
    for has_detail in (False, True):
        for has_leaves in (False, True):
            for has_arrives in (False, True):
                chosen = np.flatnonzero(
                    ((detail > 0) == has_detail) & ((leaves > 0) == has_leaves) & ((arrives > 0) == has_arrives)
                )
                event = [_varint_field(9, kind[chosen], 1), _varint_field(10, name[chosen], _ID_WIDTH)]
                event.append(_constant(_field(11, track), len(chosen)))
                if has_detail:
                    event.append(_annotation(detail[chosen]))
                if has_leaves:
                    event.append(_fixed_field(47, leaves[chosen]))
                if has_arrives:
                    event.append(_fixed_field(48, arrives[chosen]))
                parts.append((chosen, _events(start[chosen], event)))
    lasting = np.flatnonzero(~instant)
    ends = [_varint_field(9, np.full(len(lasting), _END), 1), _constant(_field(11, track), len(lasting))]
    parts.append((count + np.arange(len(lasting)), _events((start + dur)[lasting], ends)))
    when = np.concatenate([start, (start + dur)[lasting]])
    what = np.concatenate([np.ones(count, dtype=np.int64), np.zeros(len(lasting), dtype=np.int64)])
    # Rows are sorted by start and longer first; the order of ends at one moment does not matter.
    return _in_order(np.lexsort((what, when)), parts)


def _arrows(rows: pl.DataFrame, column: str) -> _Ints:
    if column not in rows.columns:
        return np.zeros(rows.height, dtype=np.int64)
    return rows[column].fill_null(0).to_numpy()


def _samples(track: int, rows: pl.DataFrame) -> bytes:
    rows = rows.drop_nulls().sort("ts_ns", maintain_order=True)
    count = rows.height
    event = [
        _constant(_field(9, _COUNTER) + _field(11, track), count),
        _constant(_varint(44 << 3 | 1), count),
        rows["value"].cast(pl.Float64).to_numpy().astype("<f8").view(np.uint8).reshape(count, 8),
    ]
    return _events(rows["ts_ns"].to_numpy(), event).tobytes()


def _events(when: _Ints, event: Sequence[_Bytes]) -> _Bytes:
    """One packet for each row, with a track event made of these columns of bytes."""
    count = len(when)
    size = sum(column.shape[1] for column in event)
    body = [
        _varint_field(8, when, _TIME_WIDTH),
        _constant(_field(10, _SEQUENCE) + _field(13, _NEEDED), count),
        _constant(_varint(11 << 3 | 2) + _varint(size), count),
        *event,
    ]
    length = sum(column.shape[1] for column in body)
    return np.concatenate([_constant(b"\x0a" + _varint(length), count), *body], axis=1)


def _in_order(order: _Ints, parts: Iterable[tuple[_Ints, _Bytes]]) -> bytes:
    """Packets of several lengths merged in the given order; each part comes with the numbers of its packets."""
    listed = [(numbers, packets) for numbers, packets in parts if len(numbers)]
    width = np.zeros(len(order), dtype=np.int64)
    for numbers, packets in listed:
        width[numbers] = packets.shape[1]
    ends = np.cumsum(width[order])
    begin = np.empty(len(order), dtype=np.int64)
    begin[order] = ends - width[order]
    whole = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for numbers, packets in listed:
        whole[begin[numbers][:, None] + np.arange(packets.shape[1])] = packets
    return whole.tobytes()


def _annotation(detail: _Ints) -> _Bytes:
    """The debug annotation `detail` with an interned text."""
    value = _varint_field(17, detail, _ID_WIDTH)
    inner = np.concatenate([_constant(_field(1, 1), len(detail)), value], axis=1)
    return np.concatenate([_constant(_varint(4 << 3 | 2) + _varint(inner.shape[1]), len(detail)), inner], axis=1)


def _interned(names: _Names, details: _Names) -> bytes:
    """The first packet: all texts by number."""
    texts = [_message(2, _field(1, number) + _text(2, text)) for number, text in enumerate(names.texts, start=1)]
    texts += [_message(29, _field(1, number) + _text(2, text)) for number, text in enumerate(details.texts, start=1)]
    texts.append(_message(3, _field(1, 1) + _text(2, "detail")))
    return _packet(_message(12, b"".join(texts)) + _field(10, _SEQUENCE) + _field(13, _CLEARED))


def _packet(body: bytes) -> bytes:
    return _message(1, body)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _text(number: int, text: str) -> bytes:
    return _message(number, harmless_line(text)[:_LONGEST_NAME].encode("utf-8", "replace"))


def _field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _constant(text: bytes, count: int) -> _Bytes:
    return np.broadcast_to(np.frombuffer(text, dtype=np.uint8), (count, len(text)))


def _varint_field(number: int, values: _Ints, width: int) -> _Bytes:
    """A varint field that is always `width` bytes: the first bytes say that more follow."""
    shifts = 7 * np.arange(width)
    groups = (values[:, None] >> shifts) & 0x7F
    groups[:, :-1] |= 0x80
    return np.concatenate([_constant(_varint(number << 3), len(values)), groups.astype(np.uint8)], axis=1)


def _fixed_field(number: int, values: _Ints) -> _Bytes:
    """A field of eight fixed bytes."""
    raw = values.astype("<i8").view(np.uint8).reshape(len(values), 8)
    return np.concatenate([_constant(_varint(number << 3 | 1), len(values)), raw], axis=1)
