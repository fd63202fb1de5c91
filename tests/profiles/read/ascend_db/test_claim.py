"""Which files are taken for a capture, of which rank and moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.reader_interface import CaptureSource
from hermes_testing.draft_db import Draft


def claim(folder: Path) -> list[CaptureSource]:
    return AscendReader().claim([file for file in folder.rglob("*") if file.is_file()])


def profile(path: Path) -> Path:
    return Draft().call(100, 200, "aten::add").task(1, 300, 400).save(path)


def companion(path: Path) -> Path:
    return Draft().add("StepTraceTime", step="50", computing=1.5).save(path)


def test_a_capture_is_one_source_with_all_its_files(tmp_path: Path) -> None:
    root = tmp_path / "node_1_42_20250109081234567_ascend_pt"
    output = root / "ASCEND_PROFILER_OUTPUT"
    files = {profile(output / "ascend_pytorch_profiler_3.db"), companion(output / "analysis.db")}
    (root / "profiler_info_3.json").write_text('{"rank_id": "3"}')
    profile(root / "PROF_000001_20250109081234567_ABC" / "msprof_20250109081234567.db")
    (source,) = claim(tmp_path)
    assert set(source.files) == files | {root / "profiler_info_3.json"}
    assert (source.rank, source.capture, source.root) == (3, "20250109081234567", root)
    assert (source.reader, source.format, source.notes) == ("ascend", "ascend-db", ())


def test_the_moment_is_read_from_the_right_of_the_name(tmp_path: Path) -> None:
    root = tmp_path / "20240101000000000_20250109081234567_ascend_pt"
    profile(root / "ascend_pytorch_profiler_0.db")
    assert claim(tmp_path)[0].capture == "20250109081234567"


def test_without_a_moment_the_folder_names_the_capture(tmp_path: Path) -> None:
    profile(tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler.db")
    (source,) = claim(tmp_path)
    assert (source.capture, source.rank) == ("rank0_ascend_pt", None)


@pytest.mark.parametrize("written", [5, "5"])
def test_the_rank_may_be_number_or_text_inside_the_information(tmp_path: Path, written: object) -> None:
    profile(tmp_path / "w_ascend_pt" / "ascend_pytorch_profiler.db")
    (tmp_path / "w_ascend_pt" / "profiler_info.json").write_text(json.dumps({"rank_id": written}))
    assert claim(tmp_path)[0].rank == 5


def test_the_rank_may_be_in_the_map_of_devices_only(tmp_path: Path) -> None:
    draft = Draft().call(100, 200, "x").add("RANK_DEVICE_MAP", rankId=6, deviceId=2)
    draft.save(tmp_path / "w_ascend_pt" / "ascend_pytorch_profiler.db")
    assert claim(tmp_path)[0].rank == 6


def test_the_rank_may_be_an_argument_of_the_job(tmp_path: Path) -> None:
    profile(tmp_path / "w_ascend_pt" / "ascend_pytorch_profiler.db")
    (tmp_path / "w_ascend_pt" / "profiler_metadata.json").write_text('{"distributed_args": {"rank": 7}}')
    assert claim(tmp_path)[0].rank == 7


def test_files_that_disagree_on_the_rank_are_told(tmp_path: Path) -> None:
    profile(tmp_path / "w_ascend_pt" / "ascend_pytorch_profiler_1.db")
    (tmp_path / "w_ascend_pt" / "profiler_info_2.json").write_text("{}")
    (source,) = claim(tmp_path)
    assert source.rank == 2
    assert [note.level for note in source.notes] == ["degraded"]


def test_databases_of_several_ranks_in_one_folder_are_several_captures(tmp_path: Path) -> None:
    for rank in (0, 1):
        profile(tmp_path / f"ascend_pytorch_profiler_{rank}.db")
    assert [source.rank for source in claim(tmp_path)] == [0, 1]


def test_mindspore_and_msprof_are_claimed_too(tmp_path: Path) -> None:
    Draft().task(1, 100, 200).save(tmp_path / "w_1_20250109081234567_ascend_ms" / "ascend_mindspore_profiler_2.db")
    Draft().task(1, 100, 200).save(tmp_path / "PROF_000001_20250109081234999_ABCD" / "msprof_20250109081234999.db")
    assert [(source.rank, source.capture) for source in claim(tmp_path)] == [
        (None, "20250109081234999"),
        (2, "20250109081234567"),
    ]


def test_a_renamed_profile_is_known_by_its_tables(tmp_path: Path) -> None:
    profile(tmp_path / "mine.db")
    assert [file.name for source in claim(tmp_path) for file in source.files] == ["mine.db"]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"junk"])
def test_a_damaged_file_with_a_profilers_name_is_claimed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ascend_pytorch_profiler_0.db").write_bytes(content)
    assert claim(tmp_path)[0].rank == 0


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"SQLite format 3\x00" + bytes(500), b"junk"])
def test_junk_with_another_name_is_left_alone(tmp_path: Path, content: bytes) -> None:
    for name in ("analysis.db", "other.db", "x.sqlite3", "profiler_info.json", "profiler_metadata.json"):
        (tmp_path / name).write_bytes(content)
    assert claim(tmp_path) == []


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    Draft().add("users", name="me").save(tmp_path / "app.db")
    assert claim(tmp_path) == []


def test_a_file_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    assert AscendReader().claim([tmp_path / "gone.db", tmp_path / "profiler_info_0.json"]) == []


def test_sums_alone_are_a_capture(tmp_path: Path) -> None:
    companion(tmp_path / "w_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "analysis.db")
    assert len(claim(tmp_path)) == 1


def test_sums_beside_a_text_export_are_of_the_same_capture(tmp_path: Path) -> None:
    companion(tmp_path / "w_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "analysis.db")
    (tmp_path / "w_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("[]")
    (source,) = claim(tmp_path)
    assert (source.format, len(source.files)) == ("ascend-text+db", 2)


def test_junk_beside_a_capture_does_not_hide_it(tmp_path: Path) -> None:
    profile(tmp_path / "w_ascend_pt" / "ascend_pytorch_profiler_0.db")
    (tmp_path / "w_ascend_pt" / "profiler_info_0.json").write_bytes(b"[" * 100_000)
    (tmp_path / "w_ascend_pt" / "profiler_metadata.json").write_bytes(b'{"distributed_args": [1]}\xff')
    assert [source.rank for source in claim(tmp_path)] == [0]
