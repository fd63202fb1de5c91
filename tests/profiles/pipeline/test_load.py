"""From folders to cached tables: what is read again, what is refused, what is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import InputError, TraceFormatError
from hermes.base.say import say
from hermes.model.tables import TABLES
from hermes.profiles.load import Loaded, load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.reader_interface import CaptureSource
from hermes.profiles.read.table_sink import Sink
from hermes.report.report_json import to_json
from hermes.store.cache import Cache


def refuse_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(AscendReader, "read", never)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ranks that are read from now on."""
    real, ranks = AscendReader.read, []

    def reading(self: AscendReader, source: CaptureSource, rank: int, sink: Sink) -> None:
        ranks.append(rank)
        real(self, source, rank, sink)

    monkeypatch.setattr(AscendReader, "read", reading)
    return ranks


def before_reading(monkeypatch: pytest.MonkeyPatch, rank_of_act: int, act: Any) -> None:
    """Do something to the source of one rank while it is being read."""
    real = AscendReader.read

    def reading(self: AscendReader, source: CaptureSource, rank: int, sink: Sink) -> None:
        if rank == rank_of_act:
            act(source)
        real(self, source, rank, sink)

    monkeypatch.setattr(AscendReader, "read", reading)


def folder(job: Path, rank: int) -> Path:
    """The folder of one rank."""
    (info,) = job.rglob(f"profiler_info_{rank}.json")
    return info.parent


def grow(path: Path) -> None:
    """One byte more that means nothing."""
    with path.open("a") as file:
        file.write(" ")


def notes(loaded: Loaded, level: str) -> list[str]:
    return [say(note.message) for note in loaded.notes if note.level == level]


# The cache ---------------------------------------------------------------------------------------------------------


def test_what_was_read_once_is_not_read_again(job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load([job], store)
    refuse_reading(monkeypatch)
    second = load([job], store)
    assert second == first
    assert [rank.rank for rank in second.ranks] == [0, 1]


def test_only_the_rank_that_changed_is_read_again(job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    load([job], store)
    grow(folder(job, 1) / "profiler_metadata.json")
    ranks = counted(monkeypatch)
    load([job], store)
    assert ranks == [1]


def test_changed_bytes_give_new_numbers(traces: Path, store: Cache) -> None:
    before = load([traces], store).ranks[0].table("step")
    path, name = next(traces.glob("rank0*")), f"ProfilerStep#{before['step'][0]}"
    text = path.read_text("utf-8")
    assert name in text
    path.write_text(text.replace(name, f"ProfilerStep#{before['step'][0] + 70}"), "utf-8")
    after = load([traces], store).ranks[0].table("step")
    assert before["step"][0] + 70 in after["step"]


def test_a_new_version_of_the_reader_reads_again(job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    load([job], store)
    monkeypatch.setattr(AscendReader, "version", AscendReader.version + 1)
    ranks = counted(monkeypatch)
    load([job], store)
    assert ranks == [0, 1]


def test_an_entry_that_was_damaged_is_read_again(job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load([job], store)
    (first.ranks[1].folder / "kernel.parquet").unlink()
    ranks = counted(monkeypatch)
    again = load([job], store)
    assert ranks == [1]
    assert again.ranks[1].table("kernel").height


def test_every_table_is_cached_even_when_it_is_empty(job: Path, store: Cache) -> None:
    for rank in load([job], store).ranks:
        assert {path.stem for path in rank.folder.glob("*.parquet")} == set(TABLES)


def test_notes_of_the_reader_are_said_again_from_the_cache(traces: Path, store: Cache) -> None:
    path = next(traces.glob("rank0*"))
    path.write_bytes(path.read_bytes()[:-4_000])
    first, second = load([path], store), load([path], store)
    assert notes(first, "degraded")
    assert first.notes == second.notes


# Damage ------------------------------------------------------------------------------------------------------------


def test_a_rank_that_cannot_be_read_degrades_the_others(
    job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: CaptureSource) -> None:
        raise TraceFormatError(source.files[0], "it is broken", place="offset 12")

    before_reading(monkeypatch, 1, fail)
    loaded = load([job], store)
    assert [rank.rank for rank in loaded.ranks] == [0]
    (note,) = (note for note in loaded.notes if say(note.message) == "it is broken")
    assert (note.level, say(note.lost)) == ("degraded", "this rank")
    assert note.where.endswith("offset 12")
    assert analyze(loaded).degraded


def test_when_no_rank_can_be_read_the_input_is_refused(
    job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: AscendReader, source: CaptureSource, rank: int, sink: Sink) -> None:
        raise TraceFormatError(source.files[0], "it is broken", hint="profile again")

    monkeypatch.setattr(AscendReader, "read", fail)
    with pytest.raises(InputError, match=r"it is broken \(and 1 more like it\)") as refused:
        load([job], store)
    assert refused.value.hint == "profile again"
    assert store.entries() == []


def test_a_file_that_changes_while_it_is_read_is_not_cached_and_said(
    job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_reading(monkeypatch, 1, lambda source: grow(source.files[0]))
    loaded = load([job], store)
    assert [rank.rank for rank in loaded.ranks] == [0]
    assert "the file changed while it was being read" in notes(loaded, "degraded")
    assert len(store.entries()) == 1


def test_a_lone_file_that_changes_while_it_is_read_is_refused(
    job: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_reading(monkeypatch, 0, lambda source: source.files[0].touch())
    with pytest.raises(InputError, match="changed while it was being read"):
        load([folder(job, 0)], store)


def test_an_empty_folder_is_refused(tmp_path: Path, store: Cache) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="the folder holds no file"):
        load([tmp_path / "empty"], store)


def test_a_folder_without_a_profile_is_refused_with_what_it_holds(tmp_path: Path, store: Cache) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"none of 1 files is a profile \(notes.txt\)"):
        load([tmp_path / "given"], store)


# Several captures --------------------------------------------------------------------------------------------------


def test_the_same_input_given_twice_is_read_once(job: Path, store: Cache) -> None:
    loaded = load([job, folder(job, 0), job], store)
    assert [rank.rank for rank in loaded.ranks] == [0, 1]
    assert notes(loaded, "degraded") == []


def test_two_captures_that_claim_one_rank_are_said(job: Path, store: Cache) -> None:
    first = folder(job, 0)
    again = job / f"copy_{first.name}"
    shutil.copytree(first, again)
    loaded = load([job], store)
    assert [rank.rank for rank in loaded.ranks] == [0, 1]
    assert any("all give rank 0 as their rank" in note for note in notes(loaded, "degraded"))


def test_of_two_captures_of_one_rank_the_latest_is_taken_unless_another_is_asked_for(job: Path, store: Cache) -> None:
    first = folder(job, 0)
    stamp = first.name.split("_")[-3]
    later = job / first.name.replace(stamp, str(int(stamp) + 1_000))
    shutil.copytree(first, later)
    assert load([job], store).ranks[0].root == later
    assert load([job], store, capture=stamp).ranks[0].root == first


def test_a_capture_that_does_not_exist_is_refused_with_those_that_do(job: Path, store: Cache) -> None:
    with pytest.raises(InputError, match="no capture is called 'nope'") as refused:
        load([job], store, capture="nope")
    assert "the folder has these captures:" in say(refused.value.hint)


# Determinism -------------------------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes(job: Path, store: Cache, tmp_path: Path) -> None:
    texts = {to_json(analyze(load([job], cache))) for cache in (store, store, Cache(tmp_path / "fresh"))}
    assert len(texts) == 1


def test_the_order_of_the_paths_changes_nothing_but_the_title(job: Path, store: Cache) -> None:
    paths = [folder(job, 0), folder(job, 1)]
    first, second = (analyze(load(given, store)) for given in (paths, paths[::-1]))
    assert (first.steps, first.findings, first.measured, first.diagnostics) == (
        second.steps, second.findings, second.measured, second.diagnostics,
    )  # fmt: skip


def test_reading_leaves_the_profile_as_it_was(job: Path, store: Cache) -> None:
    def state() -> dict[str, bytes]:
        return {str(path.relative_to(job)): path.read_bytes() for path in sorted(job.rglob("*")) if path.is_file()}

    before = state()
    analyze(load([job], store))
    assert state() == before
