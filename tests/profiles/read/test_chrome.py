"""The JSON engine: exact times, both outer forms, and damage of every kind."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import HermesError, TraceFormatError
from hermes.base.say import say
from hermes.profiles.read.chrome import ScannedTrace, head_of, scan, sniff, sparse_sql
from hermes.profiles.read.chrome_events_position import head_keys
from hermes.profiles.read.table_sink import Sink

Event = dict[str, Any]

EVENTS: list[Event] = [
    {"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 10, "dur": 5, "args": {"k": 1}},
    {"ph": "X", "name": "b", "pid": "Spans", "tid": "stream 7", "ts": 20.125, "dur": 0.5, "args": {"k": [1, 2]}},
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
]


def _scan(tmp_path: Path, content: str | bytes, name: str = "trace.json", **more: Any) -> tuple[ScannedTrace, Sink]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    sink = Sink(tmp_path / "out", 0)
    return scan(path, ("k", "bytes"), sink, **more), sink


def _rows(found: ScannedTrace, columns: str = "name, ts_ns, dur_ns") -> list[tuple[Any, ...]]:
    return found.con.execute(f"SELECT {columns} FROM {found.events} WHERE ph <> 'M' ORDER BY ts_ns").fetchall()


def _wrapped(events: list[Event], **keys: Any) -> str:
    return json.dumps(keys)[:-1] + (", " if keys else "") + '"traceEvents": ' + json.dumps(events) + "}"


@pytest.mark.parametrize("content", [json.dumps(EVENTS), _wrapped(EVENTS), _wrapped(EVENTS, a=[{"b": "]"}])])
def test_array_and_object_form_hold_the_same_events(tmp_path: Path, content: str) -> None:
    found, sink = _scan(tmp_path, content)
    assert _rows(found) == [("a", 10_000, 5_000), ("b", 20_125, 500)]
    assert sink.notes == []


def test_queries_may_take_more_memory_of_a_larger_trace(tmp_path: Path) -> None:
    """A trace of 3.5 GB, which torch writes of a compiling step, had no room for its launches in 150 MB."""
    sink = Sink(tmp_path, 0)

    def limit() -> str:
        return str(sink.connect().execute("SELECT current_setting('memory_limit')").fetchall()[0][0])

    usual = limit()
    sink.expect(500_000_000)
    assert limit() == usual
    sink.expect(3_500_000_000)
    assert (usual, limit()) == ("143.0 MiB", "1001.3 MiB")


def test_arguments_come_as_text_and_lists_as_json(tmp_path: Path) -> None:
    found, _ = _scan(tmp_path, json.dumps(EVENTS))
    assert _rows(found, "args.k") == [("1",), ("[1,2]",)]


def test_process_and_thread_may_be_text(tmp_path: Path) -> None:
    found, _ = _scan(tmp_path, json.dumps(EVENTS))
    assert _rows(found, "pid, tid")[1] == ("Spans", "stream 7")


@pytest.mark.parametrize("form", ["number", "text"])
def test_times_since_1970_with_nanoseconds_are_exact(tmp_path: Path, form: str) -> None:
    quote = '"' if form == "text" else ""
    moments = [f"1712867402348{number:03d}.{fraction:03d}" for number in (0, 256, 999) for fraction in (1, 123, 999)]
    events = ",".join(f'{{"ph":"X","name":"a","ts":{quote}{ts}{quote},"dur":1.001}}' for ts in moments)
    found, _ = _scan(tmp_path, f"[{events}]")
    assert _rows(found, "ts_ns, dur_ns") == [(int(ts.replace(".", "")), 1_001) for ts in moments]


@pytest.mark.parametrize(
    ("late", "ns", "number"),
    [
        ({}, 30_125, 7),
        ({"ts": "30.125"}, 30_125, 7),
        # Over a day off the others, read either way: no time.
        ({"ts": 70_000_000_000_000.5}, None, 7),
        ({"dur": "0.5"}, 30_125, 7),
        ({"args": {"n": "seven"}}, 30_125, None),
        ({"args": {"n": [7]}}, 30_125, None),
    ],
)
def test_numbers_read_as_numbers_or_as_text_are_the_same(
    tmp_path: Path, late: dict[str, Any], ns: int | None, number: int | None
) -> None:
    events = [{"ph": "X", "name": "a", "ts": at + 0.125, "dur": 0.5, "args": {"n": at}} for at in (10, 20)]
    events.append({"ph": "X", "name": "late", "ts": 30.125, "dur": 0.5, "args": {"n": 7}} | late)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    found = scan(path, ("n",), Sink(tmp_path / "out", 0), integers=("n",))
    last = [(ns, 500, number)] if ns else []
    assert _rows(found, "ts_ns, dur_ns, args.n") == [(10_125, 500, 10), (20_125, 500, 20), *last]


@pytest.mark.parametrize("value", ["plain", 'quo"ted', "née", "", "[0, 1]"])
def test_a_sparse_argument_comes_back_as_it_was(tmp_path: Path, value: str) -> None:
    events = [
        {"ph": "X", "name": "a", "ts": 1, "args": {"k": "v"}},
        {"ph": "X", "name": "b", "ts": 2, "args": {"Some name": value, "other": 5}},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    sparse = ("Some name", "other", "third")
    found = scan(path, ("k", *sparse), Sink(tmp_path / "out", 0), sparse=sparse)
    columns = ", ".join(sparse_sql(name) for name in sparse)
    assert _rows(found, f"args.k, {columns}") == [("v", None, None, None), (None, value, "5", None)]


def test_a_time_inside_a_name_is_left_alone(tmp_path: Path) -> None:
    name = 'say "ts": 1712867402348256.123'
    event = json.dumps({"ph": "X", "name": name, "ts": 0, "dur": 1}).replace('"ts": 0', '"ts": 1712867402348256.123')
    found, _ = _scan(tmp_path, f"[{event}]")
    assert _rows(found, "name, ts_ns") == [(name, 1712867402348256123)]


def test_header_keys_before_and_after_the_events_are_read(tmp_path: Path) -> None:
    content = _wrapped(EVENTS, first={"rank": 3})[:-1] + ', "traceName": "née", "base": 1719853884000000000}'
    found, _ = _scan(tmp_path, content)
    assert found.header == {"first": {"rank": 3}, "traceName": "née", "base": 1719853884000000000}


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("word", ["née", "中文", "plain"])
def test_a_header_keeps_its_letters_written_out_or_escaped(tmp_path: Path, word: str, escaped: bool) -> None:
    content = json.dumps({"name": word, "traceEvents": EVENTS, "after": {word: [word]}}, ensure_ascii=escaped)
    found, _ = _scan(tmp_path, content)
    assert found.header == {"name": word, "after": {word: [word]}}


def test_a_header_of_megabytes_is_read(tmp_path: Path) -> None:
    found, _ = _scan(tmp_path, _wrapped(EVENTS, filler=["x" * 1000] * 3000, rank=5))
    assert found.header["rank"] == 5
    assert len(_rows(found)) == 2


def test_a_gzip_file_is_unpacked(tmp_path: Path) -> None:
    found, _ = _scan(tmp_path, gzip.compress(_wrapped(EVENTS).encode()), "trace.json.gz")
    assert len(_rows(found)) == 2


def test_a_path_with_glob_characters_is_read(tmp_path: Path) -> None:
    found, _ = _scan(tmp_path, json.dumps(EVENTS), "a*[b]?'c.json")
    assert len(_rows(found)) == 2


def test_another_spelling_of_a_key_is_read_wherever_the_blocks_of_the_file_end(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "name": "a" * (number % 61), "ts": number, "args": {"Bytes": number}} for number in range(40_000)
    ]
    found, _ = _scan(tmp_path, _wrapped(events), spellings={"Bytes": "bytes"})
    assert _rows(found, "args.bytes") == [(str(number),) for number in range(40_000)]


def test_a_slice_spells_alike_whatever_the_size_of_the_reads(tmp_path: Path) -> None:
    from hermes.profiles.read.file_slice import _Slice, _Stretch

    path = tmp_path / "a.json"
    path.write_bytes(b'xx{"Bytes": 1, "external id":2,"Bytes":"Bytes"}yy')
    stretch = _Stretch(path=path, start=2, end=path.stat().st_size - 2, around=(b"[", b"]"), most=1 << 20)
    for size in range(1, 50):
        opened = _Slice(stretch, {"Bytes": "bytes", "external id": "External id"})
        text = b"".join(iter(lambda: opened.read(size), b""))  # noqa: B023
        opened.close()
        assert text == b'[{"bytes": 1, "External id":2,"bytes":"Bytes"}]'


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_cut_off_gives_the_events_before_the_cut(tmp_path: Path, cut: float, packed: bool) -> None:
    rng = random.Random(7)
    events = [{"ph": "X", "name": f"n{rng.random()}", "ts": number, "dur": 1} for number in range(5_000)]
    content = _wrapped(events, schemaVersion=1).encode()
    content = gzip.compress(content) if packed else content
    found, sink = _scan(tmp_path, content[: int(len(content) * cut)])
    assert 4_000 * cut < len(_rows(found)) < 5_000
    assert any(note.level == "degraded" for note in sink.notes)


def test_damage_in_the_middle_loses_only_what_it_hit(tmp_path: Path) -> None:
    events = [json.dumps({"ph": "X", "name": "n", "ts": number, "dur": 1}) for number in range(100)]
    events[50] = '{"ph": "X", "name": "n, "ts": 50, "dur": 1}'
    found, sink = _scan(tmp_path, f"[{', '.join(events)}]")
    assert len(_rows(found)) == 99
    assert sink.notes[0].level == "degraded"


def test_a_name_that_is_not_utf8_keeps_its_event(tmp_path: Path) -> None:
    content = json.dumps(EVENTS).encode().replace(b'"a"', b'"a\xff\xfe"')
    found, sink = _scan(tmp_path, content)
    assert [row[1] for row in _rows(found)] == [10_000, 20_125]
    assert sink.notes[0].level == "degraded"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ts", '"soon"'), ("ts", '"NaN"'), ("ts", "null"), ("ts", "1e30"), ("ts", "1e19"), ("ts", "[]"),
        ("ts", "18446744073709551616"), ("dur", "-1"), ("dur", "1e30"), ("dur", "1e17"), ("dur", '"long"'),
        ("dur", "{}"),
    ],
)  # fmt: skip
def test_an_impossible_time_loses_its_event_and_says_so(tmp_path: Path, key: str, value: str) -> None:
    bad = {"ph": "X", "name": "bad", "ts": 1, "dur": 1, key: "@"}
    content = json.dumps([*EVENTS, bad]).replace('"@"', value)
    found, sink = _scan(tmp_path, content)
    assert [row[0] for row in _rows(found)] == ["a", "b"]
    assert [note.level for note in sink.notes] == ["degraded"]
    assert "1 event has" in say(sink.notes[0].message)


def test_a_time_before_the_base_is_kept(tmp_path: Path) -> None:
    found, _ = _scan(tmp_path, '[{"ph":"X","name":"a","ts":-5.5,"dur":1}]')
    assert _rows(found) == [("a", -5_500, 1_000)]


@pytest.mark.parametrize("entry", ["7", '"text"', "null", "[1]", "true"])
def test_an_entry_that_is_no_object_is_left_out(tmp_path: Path, entry: str) -> None:
    found, sink = _scan(tmp_path, f"[{json.dumps(EVENTS[0])}, {entry}, {json.dumps(EVENTS[1])}]")
    assert len(_rows(found)) == 2
    assert entry == "null" or sink.notes[0].level == "degraded"


@pytest.mark.parametrize("args", ["7", '"text"', "null", "[1]"])
def test_arguments_that_are_no_object_do_not_lose_the_event(tmp_path: Path, args: str) -> None:
    found, _ = _scan(tmp_path, f'[{{"ph":"X","name":"a","ts":1,"dur":1,"args":{args}}}]')
    assert _rows(found) == [("a", 1_000, 1_000)]


def test_numbers_beyond_64_bits_and_double_keys_do_no_harm(tmp_path: Path) -> None:
    found, _ = _scan(
        tmp_path, '[{"ph":"X","name":"a","name":"b","ts":1,"dur":1,"id":36893488147419103232,"args":{"k":1e400,"k":2}}]'
    )
    assert len(_rows(found)) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b" ", b"hello", b"\x00" * 100, b"{", b"[", b"{}", b'{"a": 1}', b'{"traceEvents": 7}', b'{"traceEvents": [',
     b"\x1f\x8b", b"\x1f\x8b" + b"\x00" * 50, gzip.compress(b""), gzip.compress(b"junk"), b"[" * 100_000,
     b'{"traceEvents": [{"args": ' + b"[" * 100_000, b'{"a":' * 100_000, b'"', b"\xff\xfe" * 40],
    ids=range(19),
)  # fmt: skip
def test_what_is_no_trace_is_refused_with_its_name_and_advice(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TraceFormatError) as refused:
        _scan(tmp_path, content)
    assert "trace.json" in refused.value.where
    assert refused.value.hint


def test_a_deeply_nested_argument_does_not_break_the_reading(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    found, _ = _scan(
        tmp_path, f'[{{"ph":"X","name":"a","ts":1,"dur":1}},{{"ph":"X","name":"b","ts":2,"args":{{"k":{deep}}}}}]'
    )
    assert _rows(found)[0] == ("a", 1_000, 1_000)


def test_no_event_at_all_is_said(tmp_path: Path) -> None:
    found, sink = _scan(tmp_path, '{"traceEvents": []}')
    assert _rows(found) == []
    assert sink.notes[0].level == "degraded"


def test_the_sniffer_knows_both_forms_and_nothing_else() -> None:
    assert sniff(b'\xef\xbb\xbf [ {"ph"')
    assert sniff(b'{"schemaVersion": 1')
    assert not sniff(b'{"report": 1}')
    assert not sniff(b"[1, 2]")
    assert not sniff(b"")


def test_the_head_of_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert head_of(tmp_path / "none.json") == b""


def test_head_keys_end_where_the_events_start() -> None:
    text = '{"a": 1, "traceEvents": [{}]}'
    found = head_keys(text)
    assert found == ({"a": 1}, text.index("["))
    assert head_keys('{"a": 1, "trac') is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_to_bytes_escapes_as_anything_but_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(_wrapped(EVENTS * 3, schemaVersion=1).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        patch = data.draw(
            st.sampled_from([b"", b"\x00", b"\xff", b'"', b"{", b"}", b"[", b"]", b"9" * 30, b"null", b"-"])
        )
        content[at : at + data.draw(st.integers(0, 4))] = patch
    try:
        found, _ = _scan(tmp_path_factory.mktemp("fuzz"), bytes(content))
        _rows(found, "*")
    except HermesError:
        pass
