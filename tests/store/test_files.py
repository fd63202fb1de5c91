"""The files under a folder, and the fingerprint of their content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.base.errors import InputChangedError, InputError
from hermes.store import files as hashing
from hermes.store.files import Digests, Fingerprint, refuse_changed, walk
from hermes.store.files import fingerprint as fingerprint_with


def write(path: Path, text: str = "content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# Walking -----------------------------------------------------------------------------------------------------------


def test_all_files_below_a_folder_are_found_in_order(tmp_path: Path) -> None:
    files = [write(tmp_path / name) for name in ("b/two", "a", "b/c/three")]
    assert walk([tmp_path]) == sorted(files)


def test_a_single_file_is_itself(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json")
    assert walk([file]) == [file]


def test_a_file_given_twice_or_through_its_folder_comes_once(tmp_path: Path) -> None:
    file = write(tmp_path / "rank0" / "a.json")
    assert walk([tmp_path, file, tmp_path / "rank0", file]) == [file]


def test_relative_and_absolute_names_of_a_file_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "rank0" / "a.json")
    monkeypatch.chdir(tmp_path)
    assert walk([Path("rank0"), tmp_path / "rank0"]) == [tmp_path / "rank0" / "a.json"]
    assert walk([Path("rank0")]) == [Path("rank0/a.json")]


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "a.json")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "link").symlink_to(tmp_path / "elsewhere")
    assert walk([tmp_path / "given"]) == [tmp_path / "given" / "link" / "a.json"]


def test_a_link_beside_its_folder_adds_no_second_copy(tmp_path: Path) -> None:
    file = write(tmp_path / "z_rank0_ascend_pt" / "a.json")
    (tmp_path / "latest").symlink_to(tmp_path / "z_rank0_ascend_pt")
    assert walk([tmp_path]) == [file]


def test_a_link_to_a_file_is_a_file(tmp_path: Path) -> None:
    write(tmp_path / "blobs" / "0af3")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "trace.json").symlink_to(tmp_path / "blobs" / "0af3")
    assert walk([tmp_path / "given"]) == [tmp_path / "given" / "trace.json"]


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    file = write(tmp_path / "a" / "b" / "file")
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    assert walk([tmp_path]) == [file]


def test_a_link_that_leads_nowhere_is_passed_over(tmp_path: Path) -> None:
    file = write(tmp_path / "file")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert walk([tmp_path]) == [file]


def test_logs_of_the_profiler_are_passed_over(tmp_path: Path) -> None:
    file = write(tmp_path / "rank0_ascend_pt" / "trace_view.json")
    write(tmp_path / "rank0_ascend_pt" / "logs" / "a.log")
    records = write(tmp_path / "rank0_ascend_pt" / "FRAMEWORK" / "torch.op_range")
    assert walk([tmp_path]) == [records, file]


def test_pipes_and_sockets_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert walk([tmp_path]) == []


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    assert walk([tmp_path]) == []


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder") as refused:
        walk([tmp_path, tmp_path / "typo"])
    assert refused.value.where == str(tmp_path / "typo")


def test_what_is_neither_file_nor_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        walk([tmp_path / "pipe"])


@pytest.mark.parametrize("place", ["", "below"])
def test_a_folder_that_may_not_be_read_is_never_passed_over(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "below" / "file")
    real = os.scandir

    def refusing(path: Path | int) -> Iterator[os.DirEntry[str]]:
        if not isinstance(path, int) and Path(path) == tmp_path / place:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InputError, match="may not be read") as refused:
        walk([tmp_path])
    assert refused.value.where == str(tmp_path / place)


def test_permission_bits_are_heeded(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    write(closed / "file")
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("permission bits do not bind this user")
        with pytest.raises(InputError, match="may not be read"):
            walk([tmp_path])
    finally:
        closed.chmod(0o700)


# Fingerprints ------------------------------------------------------------------------------------------------------


def fingerprint(files: list[Path], *salt: str, ahead: list[Path] | None = None) -> Fingerprint:
    with Digests(ahead or []) as digests:
        return fingerprint_with(files, *salt, digests=digests)


def test_equal_content_has_an_equal_fingerprint(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", "one"), write(tmp_path / "b", "two")]
    assert fingerprint(files, "salt") == fingerprint(files, "salt")


@pytest.mark.parametrize("text", ["onf", "on", "one "])
def test_one_byte_changes_the_fingerprint(text: str, tmp_path: Path) -> None:
    file = write(tmp_path / "a", "one")
    before = fingerprint([file]).digest
    write(file, text)
    assert fingerprint([file]).digest != before


def test_the_same_size_and_time_do_not_hide_a_change(tmp_path: Path) -> None:
    file = write(tmp_path / "a", "one")
    then = file.stat()
    before = fingerprint([file]).digest
    write(file, "two")
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert fingerprint([file]).digest != before


def test_another_name_changes_the_fingerprint(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a"), write(tmp_path / "b")
    assert fingerprint([one]).digest != fingerprint([two]).digest


@pytest.mark.parametrize(
    ("first", "second"), [(("a",), ("b",)), (("a",), ()), (("a", "b"), ("ab",)), (("a", "b"), ("b", "a"))]
)
def test_the_salt_counts(first: tuple[str, ...], second: tuple[str, ...], tmp_path: Path) -> None:
    file = write(tmp_path / "a")
    assert fingerprint([file], *first).digest != fingerprint([file], *second).digest


def test_content_that_moves_between_files_changes_the_fingerprint(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", "xy"), write(tmp_path / "b", "z")]
    before = fingerprint(files).digest
    write(files[0], "x")
    write(files[1], "yz")
    assert fingerprint(files).digest != before


def test_files_that_are_begun_ahead_have_the_same_fingerprint(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", "one"), write(tmp_path / "b", "two")]
    ahead = [files[1], tmp_path, tmp_path / "gone", write(tmp_path / "c")]
    assert fingerprint(files, ahead=ahead) == fingerprint(files)


@pytest.mark.parametrize(("most", "read"), [(6, ["a.json", "b.csv"]), (5, [])])
def test_of_a_folder_that_is_not_too_large_the_files_of_profiles_are_hashed_ahead(
    most: int, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(hashing, "_AHEAD", most)
    monkeypatch.setattr(hashing, "_digest", lambda path, start: hashed.append(path.name) or "")
    for name in ("a.json", "b.csv", "c.bin"):
        write(tmp_path / name, "one")
    with Digests([tmp_path]) as digests:
        digests._pool.shutdown()
    assert sorted(hashed) == read


def test_a_change_between_naming_a_file_and_asking_for_it_is_seen(tmp_path: Path) -> None:
    file = write(tmp_path / "a", "one")
    with Digests([file]) as digests:
        digests.of(file)
        write(file, "longer")
        found = fingerprint_with([file], digests=digests)
    with pytest.raises(InputChangedError):
        refuse_changed(found)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read") as refused:
        fingerprint([write(tmp_path / "a"), tmp_path / "gone"])
    assert refused.value.where == str(tmp_path / "gone")


def test_a_name_that_is_no_text_has_a_fingerprint(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json"))
    assert len(fingerprint([write(file)]).digest) == 64


# Changes while reading ---------------------------------------------------------------------------------------------


def test_files_that_were_not_touched_pass(tmp_path: Path) -> None:
    refuse_changed(fingerprint([write(tmp_path / "a")]))


def test_a_file_that_grew_is_refused_by_name(tmp_path: Path) -> None:
    files = [write(tmp_path / "a"), write(tmp_path / "b")]
    before = fingerprint(files)
    write(files[1], "longer content")
    with pytest.raises(InputChangedError, match="changed while it was being read") as refused:
        refuse_changed(before)
    assert refused.value.where == str(files[1])


def test_a_file_that_was_replaced_by_an_equal_one_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a")
    before, then = fingerprint([file]), file.stat()
    write(tmp_path / "other").rename(file)
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
    with pytest.raises(InputChangedError):
        refuse_changed(before)


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a")
    before = fingerprint([file])
    file.unlink()
    with pytest.raises(InputChangedError):
        refuse_changed(before)
