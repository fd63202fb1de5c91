"""A ring hands out what was written, says what it lost, and believes nothing that does not add up."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import ROWS_AT, RingReader, RingWriter
from hermes.inside.wire.step_record import AT, FIELDS, NULL, SIZE, pack, unpack

Record = Callable[[int], bytes]
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64, min_size=len(FIELDS) - 1, max_size=len(FIELDS) - 1))
def test_a_record_comes_back_as_it_was_packed(values: list[int]) -> None:
    row = unpack(pack(*values))
    assert row is not None
    assert list(row[:-1]) == values


@given(st.integers(0, SIZE - 1), st.integers(1, 255))
def test_a_record_with_one_changed_byte_is_refused(place: int, change: int) -> None:
    raw = bytearray(pack(*[NULL] * (len(FIELDS) - 1)))
    raw[place] ^= change
    assert unpack(bytes(raw)) is None


def test_a_reader_gets_each_record_once_and_in_order(tmp_path: Path, record: Record) -> None:
    writer = RingWriter(tmp_path / "ring", {}, capacity=8)
    reader = RingReader(tmp_path / "ring")
    for index in range(1, 6):
        writer.add(record(index))
    assert [row[0] for row in reader.new()] == [1, 2, 3, 4, 5]
    writer.add(record(6))
    assert [row[0] for row in reader.new()] == [6]
    assert reader.new() == []
    assert reader.missed == 0


def test_a_slow_reader_gets_the_newest_records_and_the_number_of_those_it_missed(
    tmp_path: Path, record: Record
) -> None:
    writer = RingWriter(tmp_path / "ring", {}, capacity=8)
    reader = RingReader(tmp_path / "ring")
    for index in range(1, 21):
        writer.add(record(index))
    assert [row[0] for row in reader.new()] == list(range(13, 21))
    assert reader.missed == 12


def test_numbers_go_on_where_the_process_before_stopped(tmp_path: Path, record: Record) -> None:
    writer = RingWriter(tmp_path / "ring", {}, capacity=8, base=100)
    reader = RingReader(tmp_path / "ring")
    writer.add(record(101))
    assert [row[0] for row in reader.new()] == [101]
    assert writer.since(100) == (record(101), 0)
    assert reader.missed == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.integers(1, 25), max_size=12))
def test_what_a_reader_got_and_what_it_missed_is_what_was_written(
    tmp_path: Path, record: Record, counts: list[int]
) -> None:
    path = tmp_path / os.urandom(8).hex()
    writer, reader, got, index = RingWriter(path, {}, capacity=8), RingReader(path), 0, 0
    for count in counts:
        # As the monitor writes them: some at once.
        for many in [5] * (count // 5) + [count % 5] * bool(count % 5):
            writer.add(b"".join(record(index + 1 + one) for one in range(many)))
            index += many
        got += len(reader.new())
    assert got + reader.missed == index == writer.count


def test_a_record_that_is_torn_is_missed_and_not_handed_out(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "ring"
    writer, reader = RingWriter(path, {}, capacity=8), RingReader(path)
    for index in (1, 2, 3):
        writer.add(record(index))
    whole = path.read_bytes()
    at = whole.index(record(2))
    path.write_bytes(whole[: at + 40] + b"torn" + whole[at + 44 :])
    assert [row[0] for row in RingReader(path).new()] == [1, 3]
    assert reader.about["capacity"] == 8


def test_a_record_that_claims_another_place_than_its_own_is_not_handed_out(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "ring"
    writer = RingWriter(path, {}, capacity=8)
    writer.add(record(1))
    os.pwrite(writer._file.number, record(1 << 40), ROWS_AT + 3 * SIZE)
    assert [row[0] for row in RingReader(path).new()] == [1]


def test_a_ring_that_somebody_truncates_harms_neither_side(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "ring"
    writer, reader = RingWriter(path, {}, capacity=8), RingReader(path)
    writer.add(record(1))
    os.truncate(path, 0)
    assert reader.new() == []
    writer.add(record(2))
    assert writer.since(1) == (record(2), 0)
    assert [row[0] for row in reader.new()] == [2]


def test_a_ring_is_alive_as_long_as_its_writer_holds_it(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring", {})
    reader = RingReader(tmp_path / "ring")
    assert reader.alive
    writer.close()
    assert not reader.alive


def test_a_ring_is_for_its_owner_alone_and_made_only_once(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    RingWriter(path, {})
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(LiveError, match="File exists"):
        RingWriter(path, {})


def test_a_full_memory_is_an_error_when_the_ring_is_made_not_a_signal_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(LiveError, match="no room"):
        RingWriter(tmp_path / "ring", {})
    assert list(tmp_path.iterdir()) == []


def test_an_older_record_at_the_place_of_a_newer_one_is_not_taken_for_it(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "ring"
    writer = RingWriter(path, {}, capacity=4)
    for index in range(1, 7):
        writer.add(record(index))
    raw = bytearray(path.read_bytes())
    # As a reader on another architecture may see it: the second place still holds what stood there before.
    at = raw.index(record(6))
    raw[at : at + SIZE] = record(2)
    raw[raw.index(record(5)) :][:SIZE] = record(1)
    path.write_bytes(bytes(raw))
    reader = RingReader(path)
    assert [row[0] for row in reader.new()] == [2, 3, 4, 5]
    writer.add(record(7))
    assert [row[0] for row in reader.new()] == [7]
    assert reader.missed == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=300), length=st.integers(0, 20_000))
def test_a_file_of_random_bytes_is_refused(tmp_path: Path, raw: bytes, length: int) -> None:
    path = tmp_path / "junk"
    path.write_bytes(raw.ljust(length, b"\x01"))
    path.chmod(0o600)
    with pytest.raises(LiveError):
        RingReader(path)


def test_every_field_has_a_meaning_and_a_place() -> None:
    assert all(FIELDS.values())
    assert [AT[name] for name in FIELDS] == list(range(32))
    assert SIZE == 256
