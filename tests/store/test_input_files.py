"""The files under a folder, and the fingerprint of their content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.skips import bound_by_modes

from hermes.base.errors import InputChangedError, InputError
from hermes.base.say import say
from hermes.store import input_files as hashing
from hermes.store import messages
from hermes.store.input_files import Digests, Fingerprint, refuse_changed, refuse_hollow, regular_files, walk
from hermes.store.input_files import fingerprint as fingerprint_with


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
def test_a_folder_that_may_not_be_read_is_never_passed_over(place: str, tmp_path: Path) -> None:
    write(tmp_path / "below" / "file")
    closed = tmp_path / place
    closed.chmod(0)
    try:
        with bound_by_modes(), pytest.raises(InputError, match="the folder cannot be read") as refused:
            walk([tmp_path])
        assert refused.value.where == str(closed)
    finally:
        closed.chmod(0o700)


def test_what_lies_beside_a_folder_that_may_not_be_read_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "closed" / "file")
    write(tmp_path / "open" / "file")
    (tmp_path / "closed").chmod(0)
    try:
        with bound_by_modes():
            seen = regular_files([tmp_path])
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert seen.files == (tmp_path / "open" / "file",)
    assert [(note.level, note.where) for note in seen.notes] == [("degraded", str(tmp_path / "closed"))]


def test_each_folder_is_read_once_and_by_its_own_name_where_it_has_one(tmp_path: Path) -> None:
    write(tmp_path / "z" / "file")
    write(tmp_path / "outside" / "other")
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for link in ("a", "deep/b"):
        (tmp_path / "in" / link).symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "c").symlink_to(tmp_path / "z")
    assert walk([tmp_path / "in", tmp_path / "z"]) == [tmp_path / "in" / "a" / "other", tmp_path / "z" / "file"]


def test_the_state_of_the_machine_is_not_looked_into(tmp_path: Path) -> None:
    write(tmp_path / "file")
    (tmp_path / "link").symlink_to("/proc/self")
    seen = regular_files([tmp_path])
    assert seen.files == (tmp_path / "file",)
    assert seen.notes[0].message == messages.FOLDER_OF_MACHINE


def test_more_files_than_a_job_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        write(tmp_path / str(number))
    monkeypatch.setenv("HERMES_LIMIT_FILES", "4")
    with pytest.raises(InputError, match="at most 4 files and folders below a path") as refused:
        walk([tmp_path])
    assert "HERMES_LIMIT_FILES=8" in refused.value.hint
    monkeypatch.setenv("HERMES_LIMIT_FILES", "many")
    with pytest.raises(InputError, match="'many' is no number"):
        walk([tmp_path])


def test_a_file_of_holes_is_refused_and_a_large_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.store.input_files.HARMLESS_BYTES", 1 << 20)
    monkeypatch.setattr("hermes.base.limits.HARMLESS_BYTES", 1 << 20)
    whole, hollow, ended = tmp_path / "whole", tmp_path / "hollow", tmp_path / "ended"
    whole.write_bytes(os.urandom(1 << 20) * 3)
    hollow.write_bytes(b"x")
    os.truncate(hollow, 64 << 20)
    ended.write_bytes(b"x")
    os.truncate(ended, 64 << 20)
    with ended.open("ab") as out:
        out.write(b"x")
    refuse_hollow(whole)
    for path in (hollow, ended):
        with pytest.raises(InputError, match="at most 250 times the size") as refused:
            refuse_hollow(path)
        variable, _, value = say(refused.value.hint).rpartition(" ")[2].partition("=")
        with monkeypatch.context() as raised:
            raised.setenv(variable, value)
            refuse_hollow(path)


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
