"""The cache shows whole entries or none, whoever writes at the same time."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.base.say import say
from hermes.store.cache import Cache, Entry, default_root

KEY = "ab" + "0" * 62
OTHER = "ab" + "1" * 62


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def keep(store: Cache, key: str = KEY, text: str = "rows") -> Entry:
    with store.making() as folder:
        (folder / "kernel.parquet").write_text(text)
        return store.keep(key, folder, {"rank": 3})


def test_what_was_kept_is_found(store: Cache) -> None:
    keep(store)
    found = store.find(KEY)
    assert found is not None
    assert found.manifest["rank"] == 3
    assert (found.folder / "kernel.parquet").read_text() == "rows"


def test_another_key_is_not_found(store: Cache) -> None:
    keep(store)
    assert store.find(OTHER) is None


def test_a_cache_that_does_not_exist_has_nothing(store: Cache) -> None:
    assert store.find(KEY) is None
    assert store.entries() == []
    assert store.clear() == 0
    assert not store.root.exists()


def test_what_was_not_kept_is_gone_afterwards(store: Cache) -> None:
    with store.making() as folder:
        (folder / "kernel.parquet").write_text("rows")
    assert not folder.exists()
    assert store.find(KEY) is None


def broken_making(store: Cache) -> None:
    with store.making() as folder:
        (folder / "kernel.parquet").write_text("half")
        raise ZeroDivisionError


def test_a_failure_in_the_middle_leaves_nothing(store: Cache) -> None:
    with pytest.raises(ZeroDivisionError):
        broken_making(store)
    assert list((store.root / "making").iterdir()) == []
    assert store.entries() == []


def test_temporary_files_are_not_kept(store: Cache) -> None:
    with store.making() as folder:
        (folder / "scratch" / "spill").mkdir(parents=True)
        entry = store.keep(KEY, folder, {})
    assert not (entry.folder / "scratch").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"rank": 0}'])
def test_an_entry_without_a_whole_manifest_is_none(text: str, store: Cache) -> None:
    entry = keep(store)
    (entry.folder / "manifest.json").write_text(text)
    assert store.find(KEY) is None
    assert store.entries() == []


def test_an_entry_that_lost_a_file_is_none(store: Cache) -> None:
    (keep(store).folder / "kernel.parquet").unlink()
    assert store.find(KEY) is None


def test_an_entry_with_a_file_cut_off_is_none(store: Cache) -> None:
    (keep(store).folder / "kernel.parquet").write_text("ro")
    assert store.find(KEY) is None


def test_a_broken_entry_is_replaced(store: Cache) -> None:
    (keep(store).folder / "manifest.json").unlink()
    keep(store, text="new rows")
    found = store.find(KEY)
    assert found is not None
    assert (found.folder / "kernel.parquet").read_text() == "new rows"


def test_of_two_who_make_one_entry_the_first_is_kept_and_both_get_it(store: Cache) -> None:
    first = keep(store, text="first")
    second = keep(store, text="second")
    assert second.folder == first.folder
    assert (second.folder / "kernel.parquet").read_text() == "first"


def test_many_at_once_see_only_whole_entries(store: Cache) -> None:
    def work(number: int) -> list[str]:
        if number % 2:
            return [(keep(store, text=f"rows {number:03d}" * 50).folder / "kernel.parquet").read_text()]
        found = store.find(KEY)
        return [(found.folder / "kernel.parquet").read_text()] if found else []

    with ThreadPoolExecutor(8) as pool:
        seen = {text for texts in pool.map(work, range(80)) for text in texts}
    assert len(seen) == 1
    assert len(store.entries()) == 1
    assert list((store.root / "making").iterdir()) == []


def test_entries_come_with_their_size_on_disk(store: Cache) -> None:
    keep(store, OTHER)
    keep(store, KEY)
    assert [entry.folder.name for entry in store.entries()] == [KEY, OTHER]
    assert all(entry.bytes == 4 + (entry.folder / "manifest.json").stat().st_size for entry in store.entries())


def test_clearing_removes_entries_and_nothing_else(store: Cache) -> None:
    keep(store)
    mine = store.root / "notes.txt"
    mine.write_text("not of Hermes")
    assert store.clear() == 1
    assert (store.entries(), mine.exists()) == ([], True)
    keep(store)
    assert store.find(KEY)


def test_notes_that_are_no_text_are_kept(store: Cache) -> None:
    with store.making() as folder:
        entry = store.keep(KEY, folder, {"root": "\udcff"})
    assert json.loads((entry.folder / "manifest.json").read_text("utf-8"))["root"] == "?"


def test_only_the_user_may_look_into_an_entry(store: Cache) -> None:
    assert keep(store).folder.stat().st_mode & 0o077 == 0


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(HermesError, match="the cache cannot be written") as refused:
        keep(Cache(file / "cache"))
    assert "HERMES_CACHE_DIR" in say(refused.value.hint)


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"HERMES_CACHE_DIR": "/given", "XDG_CACHE_HOME": "/xdg"}, "/given"),
        ({"HERMES_CACHE_DIR": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/hermes"),
        ({"XDG_CACHE_HOME": ""}, "/home/ann/.cache/hermes"),
        ({}, "/home/ann/.cache/hermes"),
    ],
)
def test_the_folder_of_the_cache_follows_the_environment(environment: dict[str, str], root: str) -> None:
    assert default_root(environment, Path("/home/ann")) == Path(root)


def test_nobody_else_may_enter_a_cache_that_is_made_whatever_the_umask(store: Cache) -> None:
    before = os.umask(0)
    try:
        entry = keep(store)
    finally:
        os.umask(before)
    folders = (store.root, store.root / "tables", entry.folder.parent, entry.folder)
    assert {oct(folder.stat().st_mode & 0o777) for folder in folders} == {"0o700"}
