"""The timeline as Perfetto reads it: decoded here by the rules of protobuf, and in the real user interface if there."""

from __future__ import annotations

import io
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.model.timeline import ANALYSIS, FINDINGS, Curve, Lane
from hermes.report.perfetto import nested, write_timeline

Fields = dict[int, list[int | bytes]]
EMPTY = pl.DataFrame(schema={"start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String})


def decoded(raw: bytes) -> Fields:
    """The fields of one protobuf message by number."""
    found: Fields = defaultdict(list)
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(raw):
        key = varint()
        if key & 7 == 0:
            found[key >> 3].append(varint())
        elif key & 7 == 1:
            found[key >> 3].append(raw[at : at + 8])
            at += 8
        else:
            assert key & 7 == 2
            size = varint()
            assert at + size <= len(raw)
            found[key >> 3].append(raw[at : at + size])
            at += size
    return found


def inner(message: Fields, number: int) -> Fields:
    (raw,) = message[number]
    assert isinstance(raw, bytes)
    return decoded(raw)


def word(raw: int | bytes) -> str:
    assert isinstance(raw, bytes)
    return raw.decode("utf-8")


@dataclass
class Seen:
    """What a reader of the trace makes of one track."""

    name: str
    slices: list[tuple[str, int, int]] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    arrows: list[tuple[str, int]] = field(default_factory=list)
    samples: list[tuple[int, float]] = field(default_factory=list)


def played(lanes: list[Lane], curves: list[Curve] | None = None, say: Callable[[str], str] | None = None) -> list[Seen]:
    """Writes, reads, and plays the events of each track by time, as trace processor does."""
    out = io.BytesIO()
    write_timeline(lanes, curves or [], out, say=say)
    tracks: dict[int, Seen] = {}
    events: list[tuple[int, Fields]] = []
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for raw in decoded(out.getvalue())[1]:
        assert isinstance(raw, bytes)
        packet = decoded(raw)
        assert packet[10] == [1]
        if 12 in packet:
            interned = inner(packet, 12)
            for number, known in ((2, names), (29, texts)):
                for entry in interned[number]:
                    assert isinstance(entry, bytes)
                    pair = decoded(entry)
                    known[int(pair[1][0])] = word(pair[2][0])
        elif 60 in packet:
            about = inner(packet, 60)
            above = tracks[int(about[5][0])].name + "/" if 5 in about else ""
            tracks[int(about[1][0])] = Seen(above + word(about[2][0]))
        else:
            events.append((int(packet[8][0]), inner(packet, 11)))
    # The order of the file decides between events of one moment.
    events.sort(key=lambda pair: pair[0])
    stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for when, event in events:
        play(when, event, tracks[int(event[11][0])], stacks[int(event[11][0])], names, texts)
    assert not any(stacks.values())
    return [seen for seen in tracks.values() if seen.slices or seen.samples]


def play(
    when: int, event: Fields, seen: Seen, stack: list[tuple[str, int]], names: dict[int, str], texts: dict[int, str]
) -> None:
    kind = event[9][0]
    if kind == 4:
        (raw,) = event[44]
        assert isinstance(raw, bytes)
        seen.samples.append((when, struct.unpack("<d", raw)[0]))
        return
    if kind == 2:
        name, start = stack.pop()
        seen.slices.append((name, start, when - start))
        return
    name = names[int(event[10][0])]
    if 4 in event:
        annotation = inner(event, 4)
        seen.details.append(texts[int(annotation[17][0])])
    for number in (47, 48):
        seen.arrows += [
            (name, int.from_bytes(raw, "little")) for raw in event.get(number, []) if isinstance(raw, bytes)
        ]
    if kind == 3:
        seen.slices.append((name, when, 0))
    else:
        stack.append((name, when))


def lane(*rows: tuple[int, int, str], rank: int = 0, name: str = "stream 7") -> Lane:
    frame = pl.DataFrame(rows, schema={"start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String}, orient="row")
    return Lane(rank=rank, folder="device", name=name, rows=frame)


def test_slices_come_back_with_track_name_start_and_length() -> None:
    (seen,) = played([lane((1_736_412_474_730_135_217, 250, "MatMul"), (1_736_412_474_730_135_467, 1, "Add"))])
    assert seen.name == "rank 0/device/stream 7"
    assert seen.slices == [("MatMul", 1_736_412_474_730_135_217, 250), ("Add", 1_736_412_474_730_135_467, 1)]


def test_calls_inside_calls_nest_and_end_innermost_first() -> None:
    (seen,) = played([lane((0, 100, "step"), (0, 100, "forward"), (10, 20, "mm"), (30, 70, "loss"))])
    assert sorted(seen.slices) == [("forward", 0, 100), ("loss", 30, 70), ("mm", 10, 20), ("step", 0, 100)]


def test_slices_that_overlap_without_nesting_go_to_a_further_track() -> None:
    first, second = played([lane((0, 10, "a"), (5, 10, "b"), (20, 5, "c"))])
    assert (first.name, second.name) == ("rank 0/device/stream 7", "rank 0/device/stream 7 (2)")
    assert first.slices == [("a", 0, 10), ("c", 20, 5)]
    assert second.slices == [("b", 5, 10)]


def test_a_slice_of_no_length_is_a_moment() -> None:
    (seen,) = played([lane((0, 10, "a"), (10, 0, "record"), (10, 5, "b"))])
    assert sorted(seen.slices) == [("a", 0, 10), ("b", 10, 5), ("record", 10, 0)]


def test_arrows_and_details_stand_with_their_slices() -> None:
    rows = lane((0, 10, "launch"), (20, 5, "kernel"), (30, 5, "plain")).rows.with_columns(
        pl.Series("leaves", [77, None, None], dtype=pl.Int64),
        pl.Series("arrives", [None, 77, None], dtype=pl.Int64),
        pl.Series("detail", [None, "2,3;3,4", None], dtype=pl.String),
    )
    (seen,) = played([Lane(rank=3, folder="device", name="stream 1", rows=rows)])
    assert seen.arrows == [("launch", 77), ("kernel", 77)]
    assert seen.details == ["2,3;3,4"]


def test_in_another_language_the_analysis_is_told_and_what_was_recorded_keeps_its_name() -> None:
    rows = [(0, 10, "CPU004 most kernels are short")]
    found = replace(lane(*rows, name=FINDINGS), folder=ANALYSIS)
    analysis, device = played([found, lane((0, 10, "MatMul"))], say=str.upper)
    assert analysis.name == "rank 0/analysis/FINDINGS"
    assert analysis.slices == [("CPU004 MOST KERNELS ARE SHORT", 0, 10)]
    assert (device.name, device.slices) == ("rank 0/device/stream 7", [("MatMul", 0, 10)])


def test_names_of_attackers_are_text() -> None:
    (seen,) = played([lane((0, 1, "<script>alert(1)</script>\x1b[31m" + "x" * 20_000), name="a\u202e\ud800b")])
    assert "\x1b" not in seen.slices[0][0]
    assert seen.slices[0][0].startswith("<script>")
    assert len(seen.slices[0][0]) == 10_000
    assert seen.name == "rank 0/device/a\ufffd\ufffdb"


def test_counters_are_exact_and_missing_samples_are_left_out() -> None:
    rows = pl.DataFrame({"ts_ns": [1, 2, 3], "value": [0.1, None, 2.5e9]})
    (seen,) = played([], [Curve(rank=0, folder="counters/memory", name="cuda allocated", unit="B", rows=rows)])
    assert seen.samples == [(1, 0.1), (3, 2.5e9)]
    assert seen.name == "rank 0/counters/memory/cuda allocated"


def test_nothing_to_show_is_an_empty_trace() -> None:
    assert played([]) == []
    assert played([Lane(rank=0, folder="host", name="steps", rows=EMPTY)]) == []


SLICES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.sampled_from("abc")), min_size=1, max_size=25)


@given(SLICES)
def test_any_slices_come_back(slices: list[tuple[int, int, str]]) -> None:
    seen = played([lane(*slices)])
    back = sorted((start, dur, name) for track in seen for name, start, dur in track.slices)
    assert back == sorted(slices)


@given(SLICES)
def test_every_part_is_nested(slices: list[tuple[int, int, str]]) -> None:
    rows = lane(*slices).rows.sort("start_ns", "dur_ns", descending=[False, True])
    for part in nested(rows):
        spans = [(start, start + dur) for start, dur in part.select("start_ns", "dur_ns").iter_rows()]
        for one, other in pairs(spans):
            assert other[0] >= one[1] or other[1] <= one[1]


def pairs(spans: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for place, one in enumerate(spans):
        yield from ((one, other) for other in spans[place + 1 :])


def test_the_same_rows_give_the_same_bytes() -> None:
    outs = []
    for _ in range(2):
        out = io.BytesIO()
        write_timeline([lane((0, 5, "a"), (5, 5, "b")), lane((0, 9, "c"), rank=1)], [], out)
        outs.append(out.getvalue())
    assert outs[0] == outs[1]
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        write_timeline([Lane(rank=0, folder="", name="x", rows=EMPTY.drop("dur_ns"))], [], io.BytesIO())
