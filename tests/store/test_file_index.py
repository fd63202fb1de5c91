"""The index of what was hashed spares a second reading, and never answers for a file that changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.store import input_files as room
from hermes.store.cache import Cache
from hermes.store.file_index import FOLDER, MARGIN_NS, Index, file_state
from hermes.store.input_files import Digests, fingerprint


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose content was read."""
    seen: list[Path] = []
    read = room._digest

    def noted(path: Path, start: int) -> str:
        seen.append(path)
        return read(path, start)

    monkeypatch.setattr(room, "_digest", noted)
    return seen


def later() -> int:
    """A clock by which all files here are old."""
    return time.time_ns() + 10 * MARGIN_NS


def digest(tmp_path: Path, *paths: Path, clock: Callable[[], int] = later) -> str:
    with Digests(paths, Index(tmp_path / "cache", paths, clock)) as digests:
        return fingerprint(paths, digests=digests).digest


def test_what_was_not_touched_is_not_read_again(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    first = digest(tmp_path, file)
    assert digest(tmp_path, file) == first
    assert reads == [file]


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    with Digests() as plain:
        expected = fingerprint([file], digests=plain).digest
    assert [digest(tmp_path, file) for _ in range(2)] == [expected] * 2


def _written(file: Path) -> None:
    file.write_text("two")


def _dated_back(file: Path) -> None:
    then = file.stat()
    file.write_text("two")
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


def _replaced(file: Path) -> None:
    then = file.stat()
    other = file.with_name("other")
    other.write_text("two")
    os.utime(other, ns=(then.st_atime_ns, then.st_mtime_ns))
    other.rename(file)


def _overwritten_in_place(file: Path) -> None:
    then = file.stat()
    with file.open("r+b") as stream:
        stream.write(b"two")
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


LONG_AGO_NS = 10**18


@pytest.mark.parametrize("change", [_written, _dated_back, _replaced, _overwritten_in_place])
def test_a_change_of_the_same_length_is_read(change: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    # Beyond the tick of the clock that files are stamped by.
    os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))
    first = digest(tmp_path, file)
    change(file)
    assert digest(tmp_path, file) != first
    assert digest(tmp_path, file) != first


def test_a_file_that_was_written_just_now_is_read_every_time(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    for _ in range(2):
        digest(tmp_path, file, clock=time.time_ns)
    assert reads == [file, file]


def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    state = file_state(file)
    monkeypatch.setattr(room, "file_state", lambda path: state)
    first = digest(tmp_path, file, clock=lambda: state[2] + MARGIN_NS - 1)
    file.write_text("two")
    assert digest(tmp_path, file, clock=later) != first


def test_a_change_while_it_is_hashed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    read = room._digest

    def written_meanwhile(path: Path, start: int) -> str:
        found = read(path, start)
        file.write_text("longer")
        return found

    monkeypatch.setattr(room, "_digest", written_meanwhile)
    first = digest(tmp_path, file)
    monkeypatch.setattr(room, "_digest", read)
    assert digest(tmp_path, file) != first


def test_of_several_files_only_the_changed_one_is_read(tmp_path: Path, reads: list[Path]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    several = [folder / name for name in "abc"]
    for file in several:
        file.write_text("one")
    digest(tmp_path, *several)
    several[1].write_text("longer")
    digest(tmp_path, *several)
    assert reads == [*several, several[1]]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": [[1], []]}', '{"a": [["x", 1, 1, 1, 1], []]}'])
def test_a_damaged_index_is_none(text: str, tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    first = digest(tmp_path, file)
    (kept,) = (tmp_path / "cache" / FOLDER).iterdir()
    kept.write_text(text)
    assert digest(tmp_path, file) == first
    assert reads == [file, file]
    assert str(file) in json.loads(kept.read_text())


def test_clearing_the_cache_clears_the_index(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    digest(tmp_path, file)
    Cache(tmp_path / "cache").clear()
    assert not (tmp_path / "cache" / FOLDER).exists()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    file = tmp_path / "a"
    file.write_text("one")
    assert digest(tmp_path, file) == digest(tmp_path, file)
