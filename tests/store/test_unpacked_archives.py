"""Archives: what is in them comes out once, and nothing that could do harm does."""

from __future__ import annotations

import gzip
import io
import random
import stat
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base import limits
from hermes.base.errors import HermesError, InputError
from hermes.base.say import say
from hermes.store import unpacked_archives
from hermes.store.cache import Cache
from hermes.store.unpacked_archives import is_archive, stage, unpack

FORMS = {"job.tar": "w", "job.tar.gz": "w:gz", "job.tgz": "w:gz", "job.tar.bz2": "w:bz2", "job.tar.xz": "w:xz"}


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def tar(path: Path, *members: tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def inside(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [*FORMS, "job.zip"])
def test_every_kind_of_archive_is_unpacked(name: str, tmp_path: Path, store: Cache) -> None:
    members = (("a/b.json", b"[1]"), ("./c.csv", b"x"))
    path = (
        zipped(tmp_path / name, *members) if name.endswith("zip") else tar(tmp_path / name, *members, mode=FORMS[name])
    )
    assert is_archive(path)
    made = unpack(path, store)
    assert inside(made.root) == {"a/b.json": b"[1]", "c.csv": b"x"}
    assert made.told(f"{made.root}/a/b.json") == f"{path}/a/b.json"
    assert made.notes == ()


def test_an_archive_is_unpacked_once_until_it_changes(tmp_path: Path, store: Cache) -> None:
    path = tar(tmp_path / "job.tar", ("a", b"1"))
    first = unpack(path, store)
    (first.root / "a").write_bytes(b"kept")
    assert inside(unpack(path, store).root) == {"a": b"kept"}
    tar(path, ("a", b"22"))
    assert inside(unpack(path, store).root) == {"a": b"22"}


HARMFUL = ["../out.json", "a/../../out.json", "/tmp/out.json", "..\\out.json", "C:\\out.json", "a/" * 30 + "deep.json"]


@pytest.mark.parametrize("name", HARMFUL)
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_name_that_leads_out_of_the_folder_is_refused_and_said(
    name: str, form: str, tmp_path: Path, store: Cache
) -> None:
    make = tar if form == "tar" else zipped
    made = unpack(make(tmp_path / f"job.{form}", (name, b"bad"), ("good.json", b"{}")), store)
    assert inside(made.root) == {"good.json": b"{}"}
    assert "outside" in say(made.notes[0].message)
    assert unpack(tmp_path / f"job.{form}", store).notes == made.notes
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path, store: Cache) -> None:
    path = tmp_path / "job.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("folder")
        link.type, link.linkname = kind, "/etc"
        archive.addfile(link)
        for name in ("folder/passwd", "good.json"):
            entry = tarfile.TarInfo(name)
            entry.size = 2
            archive.addfile(entry, io.BytesIO(b"{}"))
    made = unpack(path, store)
    assert inside(made.root) == {"folder/passwd": b"{}", "good.json": b"{}"}
    assert not any(one.is_symlink() for one in made.root.rglob("*"))
    assert "links" in say(made.notes[0].message)


def test_a_link_in_a_zip_is_refused(tmp_path: Path, store: Cache) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    made = unpack(zipped(tmp_path / "job.zip", (link, b"/etc/passwd"), ("good.json", b"{}")), store)
    assert inside(made.root) == {"good.json": b"{}"}


@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_what_unpacks_to_far_more_than_its_size_is_refused(
    form: str, tmp_path: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HARMLESS_BYTES", 1 << 20)
    zeros = ("a.json", bytes(8 << 20))
    path = zipped(tmp_path / "job.zip", zeros) if form == "zip" else tar(tmp_path / "job.tar.gz", zeros, mode="w:gz")
    with pytest.raises(InputError, match="at most 250 times"):
        unpack(path, store)
    assert not any((store.root / unpacked_archives.FOLDER).rglob("*.json"))


def test_too_many_files_are_refused(tmp_path: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LIMIT_ARCHIVE_ENTRIES", "3")
    path = tar(tmp_path / "job.tar", *((str(number), b"") for number in range(5)))
    with pytest.raises(InputError, match="at most 3 files and folders in an archive") as refused:
        unpack(path, store)
    assert refused.value.hint == "if you trust it, raise the limit: HERMES_LIMIT_ARCHIVE_ENTRIES=6"
    monkeypatch.setenv("HERMES_LIMIT_ARCHIVE_ENTRIES", "6")
    assert len(inside(unpack(path, store).root)) == 5


def test_the_hint_lets_an_archive_through_whose_size_bounds_its_entries(
    tmp_path: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_FREE_ENTRIES", 2)
    path = tar(tmp_path / "job.tar.gz", *((f"{number}.json", b"") for number in range(300)), mode="w:gz")
    with pytest.raises(InputError, match="too many files and folders for its size") as refused:
        unpack(path, store)
    variable, _, value = say(refused.value.hint).rpartition(" ")[2].partition("=")
    monkeypatch.setenv(variable, value)
    assert len(inside(unpack(path, store).root)) == 300


@pytest.mark.parametrize("names", [["a/b/c/d/x"], ["a/", "b/", "c/", "d/", "x"]])
def test_folders_count_as_files_do(
    names: list[str], tmp_path: Path, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LIMIT_ARCHIVE_ENTRIES", "4")
    with pytest.raises(InputError, match="too many files and folders"):
        unpack(zipped(tmp_path / "job.zip", *((name, b"") for name in names)), store)


def test_what_is_passed_over_counts_as_unpacked(tmp_path: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HARMLESS_BYTES", 1 << 20)
    path = tar(tmp_path / "job.tar.gz", (".git/a", bytes(64 << 20)), ("good.json", b"{}"), mode="w:gz")
    with pytest.raises(InputError, match="unpacks to too many bytes"):
        unpack(path, store)


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path, store: Cache) -> None:
    path = tmp_path / "job.tar.gz"
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 64 << 20
    with gzip.open(path, "wb") as out:
        out.write(tar_bytes(("good.json", b"{}"))[:1024] + header.tobuf(tarfile.USTAR_FORMAT) + bytes(64 << 20))
    made = unpack(path, store)
    assert inside(made.root) == {"good.json": b"{}"}
    assert "longer than any path" in say(made.notes[0].message)


def tar_bytes(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_an_archive_that_is_cut_off_gives_what_is_whole_and_says_so(tmp_path: Path, store: Cache) -> None:
    content = random.Random(1).randbytes(300_000)
    path = tar(tmp_path / "job.tar.gz", ("a.json", b"{}"), ("b.json", content), mode="w:gz")
    path.write_bytes(path.read_bytes()[:150_000])
    made = unpack(path, store)
    assert (made.root / "a.json").read_bytes() == b"{}"
    assert "cut off" in say(made.notes[0].message)


def test_an_encrypted_entry_is_refused(tmp_path: Path, store: Cache) -> None:
    path = zipped(tmp_path / "job.zip", ("secret.json", b"{}"), ("good.json", b"{}"))
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    path.write_bytes(content)
    made = unpack(path, store)
    assert inside(made.root) == {"good.json": b"{}"}
    assert "encrypted" in say(made.notes[0].message)


def test_packed_files_are_unpacked_beside_links_to_the_others(tmp_path: Path, store: Cache) -> None:
    root = tmp_path / "run_ascend_pt"
    (root / "out").mkdir(parents=True)
    (root / "info.json").write_text("{}")
    (root / "out/a.csv.gz").write_bytes(gzip.compress(b"x,y"))
    made = stage(root, [root / "out/a.csv.gz"], [root / "info.json"], store)
    assert inside(made.root) == {"info.json": b"{}", "out/a.csv": b"x,y"}
    assert made.root.name == "run_ascend_pt"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_in_an_archive_nothing_but_our_own_error_is_raised(data: st.DataObject, tmp_path: Path) -> None:
    seed = tar_bytes(("a/b.json", b"{}"), ("x" * 120, b"long name"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/b.json", b"{}" * 50)
    form = data.draw(st.sampled_from(["tar", "tar.gz", "zip"]))
    content = bytearray({"tar": seed, "tar.gz": gzip.compress(seed), "zip": out.getvalue()}[form])
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)))):
        content[place] = value
    path = tmp_path / f"job.{form}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    before = set(tmp_path.iterdir())
    with suppress(HermesError):
        unpack(path, Cache(tmp_path / "cache"))
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "cache"}


@pytest.mark.parametrize("version", ["0.0", "0.1", "1.0", "old"])
def test_sparse_files_are_refused_without_reading_their_maps(version: str, tmp_path: Path, store: Cache) -> None:
    member = tarfile.TarInfo("sparse.json")
    data = b"5\n" + b"0\n" * 10
    member.size = len(data)
    major, _, minor = version.partition(".")
    member.pax_headers = {
        "old": {}, "0.0": {"GNU.sparse.size": "9"}, "0.1": {"GNU.sparse.map": "x,y", "GNU.sparse.size": "9"},
        "1.0": {"GNU.sparse.major": major, "GNU.sparse.minor": minor, "GNU.sparse.realsize": "9"},
    }[version]  # fmt: skip
    if version == "old":
        member.type = tarfile.GNUTYPE_SPARSE
    path = tmp_path / "job.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for entry, content in ((tarfile.TarInfo("good.json"), b""), (member, data)):
            archive.addfile(entry, io.BytesIO(content))
    made = unpack(path, store)
    assert inside(made.root) == {"good.json": b""}
    assert "sparse" in say(made.notes[0].message)
