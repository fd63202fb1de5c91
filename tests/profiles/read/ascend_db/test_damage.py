"""Files that are damaged, foreign or still in use; and no trace is left beside the user's files."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.errors import HermesError, TraceFormatError
from hermes.base.say import say
from hermes.profiles.read.ascend.db import read_database
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
from hermes_testing.draft_db import Draft

NAME = "ascend_pytorch_profiler_0.db"


def state(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file.relative_to(folder)): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns,
        )
        for file in folder.rglob("*")
        if file.is_file()
    }


def large() -> Draft:
    """Enough rows for many pages in two tables."""
    draft = Draft().step(1, 50, 10_000_000)
    for number in range(3000):
        draft.kernel(number, f"kernel_{number % 300}", 100 + 10 * number, 105 + 10 * number)
        draft.call(100 + 10 * number, 104 + 10 * number, f"aten::op_{number % 200}")
    return draft


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return large().save(tmp_path_factory.mktemp("image") / NAME).read_bytes()


@pytest.mark.parametrize("folder", ["plain", "with space", "who?#x", "100%41", "a&mode=rwc", "it's", "名前"])
def test_any_folder_name_is_read_and_nothing_changes_there(tmp_path: Path, sink: Sink, folder: str) -> None:
    path = Draft().task(1, 100, 200).save(tmp_path / folder / NAME)
    before = state(path.parent)
    read_database([path], 0, sink)
    assert sink.read("kernel").height == 1
    assert state(path.parent) == before


@pytest.fixture
def in_wal(tmp_path: Path) -> Iterator[Path]:
    """A database whose rows lie in its `-wal` only, still open in its writer."""
    path = tmp_path / "live" / NAME
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = wal")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        Draft().task(1, 100, 200).write(writer)
        yield path


def test_rows_that_lie_in_the_wal_are_read_and_nothing_changes(in_wal: Path, sink: Sink) -> None:
    before = state(in_wal.parent)
    assert f"{NAME}-wal" in before
    read_database([in_wal], 0, sink)
    assert sink.read("kernel").height == 1
    assert state(in_wal.parent) == before


def test_the_wal_is_among_the_files_that_key_the_cache(in_wal: Path) -> None:
    (source,) = AscendReader().claim([in_wal])
    assert in_wal.with_name(f"{NAME}-wal") in source.files


def test_a_read_only_folder_with_an_empty_wal_is_read(tmp_path: Path, sink: Sink) -> None:
    path = Draft().task(1, 100, 200).save(tmp_path / "ro" / NAME, mode="wal")
    path.with_name(f"{NAME}-wal").touch()
    path.parent.chmod(0o555)
    try:
        read_database([path], 0, sink)
    finally:
        path.parent.chmod(0o755)
    assert sink.read("kernel").height == 1


def test_a_database_that_another_process_has_locked_is_read(tmp_path: Path, sink: Sink) -> None:
    path = Draft().task(1, 100, 200).save(tmp_path / "w" / NAME)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        read_database([path], 0, sink)
        other.rollback()
    assert sink.read("kernel").height == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database at all", b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\xff" * 8000],
)
def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path, sink: Sink, content: bytes) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=NAME):
        read_database([path], 0, sink)


def test_a_missing_file_is_refused(tmp_path: Path, sink: Sink) -> None:
    with pytest.raises(TraceFormatError, match="cannot be read"):
        read_database([tmp_path / NAME], 0, sink)


def test_another_programs_database_is_refused(tmp_path: Path, sink: Sink) -> None:
    path = Draft().add("users", name="me").save(tmp_path / NAME)
    with pytest.raises(TraceFormatError, match="no table of a profiler"):
        read_database([path], 0, sink)


def test_a_profile_without_names_is_refused(tmp_path: Path, sink: Sink) -> None:
    draft = Draft().task(1, 100, 200)
    draft.names.clear()
    with pytest.raises(TraceFormatError, match="STRING_IDS"):
        read_database([draft.save(tmp_path / NAME)], 0, sink)


def test_a_view_with_a_tables_name_is_not_run(tmp_path: Path, sink: Sink) -> None:
    path = Draft().step(1, 100, 200).call(100, 150, "aten::add").save(tmp_path / NAME)
    with closing(sqlite3.connect(path)) as connection:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS startNs FROM n"
        connection.execute(f"CREATE VIEW TASK AS {endless}")
    read_database([path], 0, sink)
    assert sink.read("kernel").is_empty()


def test_a_file_cut_short_gives_what_lies_before_the_cut(tmp_path: Path, sink: Sink, image: bytes) -> None:
    path = tmp_path / "w" / NAME
    path.parent.mkdir()
    path.write_bytes(image[: len(image) - 20_000])
    before = state(path.parent)
    read_database([path], 0, sink)
    notes = [note for note in sink.notes if note.level == "degraded"]
    assert "cut off" in say(notes[0].message)
    assert all(str(path) in note.where and say(note.lost) for note in notes)
    assert sink.read("step").height == 1
    assert state(path.parent) == before


def test_a_damaged_table_is_named_and_the_others_are_read(tmp_path: Path, sink: Sink, image: bytes) -> None:
    path = tmp_path / NAME
    path.write_bytes(image)
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'PYTORCH_API'").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    broken = bytearray(image)
    broken[(root - 1) * page : root * page] = b"\xee" * page
    path.write_bytes(broken)
    read_database([path], 0, sink)
    (note,) = [note for note in sink.notes if note.level == "degraded"]
    assert "PYTORCH_API" in say(note.message)
    assert say(note.lost) == "table PYTORCH_API"
    assert (sink.read("kernel").height, sink.read("host_op").height) == (3000, 0)


def test_a_broken_companion_costs_only_its_own_tables(tmp_path: Path, sink: Sink) -> None:
    path = Draft().task(1, 100, 200).save(tmp_path / NAME)
    (tmp_path / "analysis.db").write_bytes(b"")
    read_database([path, tmp_path / "analysis.db"], 0, sink)
    (note,) = sink.notes
    assert (note.level, note.where) == ("degraded", str(tmp_path / "analysis.db"))
    assert sink.read("kernel").height == 1


def test_information_that_is_no_json_is_told(tmp_path: Path, sink: Sink) -> None:
    path = Draft().task(1, 100, 200).save(tmp_path / NAME)
    (tmp_path / "profiler_info_0.json").write_text('{"config": ')
    read_database([path, tmp_path / "profiler_info_0.json"], 0, sink)
    assert [say(note.lost) for note in sink.notes] == ["the profiler's settings"]


def mangled(image: bytes, seed: int) -> bytes:
    dice = random.Random(seed)
    data = bytearray(image)
    if seed % 4 == 0:
        return bytes(data[: dice.randrange(len(data))])
    if seed % 4 == 1:
        here, there = dice.randrange(len(data) // 4096) * 4096, dice.randrange(len(data) // 4096) * 4096
        data[here : here + 4096] = data[there : there + 4096]
    for _ in range(dice.choice([1, 10, 300])):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_mangled_bytes_give_an_error_or_a_table_never_a_crash(
    tmp_path: Path, sink: Sink, image: bytes, seed: int
) -> None:
    path = tmp_path / NAME
    path.write_bytes(mangled(image, seed))
    reader = AscendReader()
    (source,) = reader.claim([path])
    refused = ""
    try:
        reader.read(source, 0, sink)
    except HermesError as error:
        refused = str(error)
    assert NAME in refused or sink.read("rank").height == 1
