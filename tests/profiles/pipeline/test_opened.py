"""Profiles in archives and packed files: read as if they lay there plainly, and named as the user has them."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
from pathlib import Path

import fsspec
import pytest

from hermes.base.errors import InputError
from hermes.model.report import Report
from hermes.model.step_measures import RankTotal
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Job, generate

JOB = Job(ranks=2, steps=2, layers=1)


def windows(report: Report) -> list[tuple[int, int | None, int]]:
    return [(row.rank, row.step, row.window_ns) for row in report.steps]


def packed(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as out:
        out.add(folder, folder.name)
    return archive


@pytest.mark.parametrize("form", ["ascend-text", "kineto"])
def test_an_archive_is_analysed_as_the_folder_in_it(form: str, tmp_path: Path, store: Cache) -> None:
    folder = generate(tmp_path / "job", JOB, formats=[form])  # type: ignore[list-item]
    archive = packed(folder, tmp_path / "job.tar.gz")
    report = analyze(load([archive], store))
    assert windows(report) == windows(analyze(load([folder], store)))
    assert all(one.path.startswith(f"{archive}/") for one in report.inputs)
    again = analyze(load([archive], store))
    assert [one.path for one in again.inputs] == [one.path for one in report.inputs]


def test_an_archive_at_a_url_is_named_by_its_url(tmp_path: Path, store: Cache) -> None:
    archive = packed(generate(tmp_path / "job", JOB, formats=["kineto"]), tmp_path / "job.tgz")
    fsspec.filesystem("memory").pipe("/bucket/job.tgz", archive.read_bytes())
    report = analyze(load(["memory://bucket/job.tgz"], store))
    assert len(report.inputs) == 2
    assert all(one.path.startswith("memory://bucket/job.tgz/") for one in report.inputs)


def test_packed_files_of_a_capture_are_read(tmp_path: Path, store: Cache) -> None:
    folder = generate(tmp_path / "job", JOB, formats=["ascend-text"])
    plain = analyze(load([folder], store))
    other = Path(shutil.copytree(folder, tmp_path / "packed"))
    for path in [*other.rglob("*.csv"), *other.rglob("trace_view.json")]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    report = analyze(load([other], store))
    assert windows(report) == windows(plain)
    assert report.rows(RankTotal) == plain.rows(RankTotal)
    assert all(str(other) in one.path for one in report.inputs)


def test_an_archive_without_a_profile_is_named_and_not_the_cache(tmp_path: Path, store: Cache) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("x")
    archive = packed(tmp_path / "text", tmp_path / "text.tar.gz")
    with pytest.raises(InputError) as refused:
        load([archive], store)
    assert str(store.root) not in str(refused.value.where)
    assert str(archive) in refused.value.where


def test_a_broken_archive_beside_a_profile_is_said_and_does_not_stop_it(tmp_path: Path, store: Cache) -> None:
    folder = generate(tmp_path / "job", JOB, formats=["kineto"])
    (folder / "more.tar.gz").write_bytes(b"nothing")
    loaded = load([folder], store)
    assert len(loaded.ranks) == 2
    assert any("more.tar.gz" in note.where for note in loaded.notes)


def test_an_archive_of_something_else_beside_a_profile_is_left_alone(tmp_path: Path, store: Cache) -> None:
    folder = generate(tmp_path / "job", JOB, formats=["kineto"])
    (tmp_path / "images").mkdir()
    (tmp_path / "images/cat.jpg").write_bytes(b"x" * 100)
    packed(tmp_path / "images", folder / "images.tar.gz")
    (folder / "more").mkdir()
    with zipfile.ZipFile(folder / "more/images.zip", "w") as out:
        out.write(tmp_path / "images/cat.jpg", "cat.jpg")
    loaded = load([folder], store)
    assert len(loaded.ranks) == 2
    assert not (store.root / "unpacked").exists()


def test_an_archive_in_a_folder_is_opened_where_it_holds_profiles(tmp_path: Path, store: Cache) -> None:
    folder = generate(tmp_path / "job", JOB, formats=["ascend-text"])
    (tmp_path / "run").mkdir()
    packed(folder, tmp_path / "run/job.tar.gz")
    assert len(load([tmp_path / "run"], store).ranks) == 2
