"""A draft in the cache is cleared away wherever its making ends; what a dead process left goes at the next use."""

from __future__ import annotations

import _thread
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermes.base import end_on_signal
from hermes.base.end_on_signal import folder_aside
from hermes.base.write_atomic import write_atomic
from hermes.store import unfinished_folders
from hermes.store.cache import Cache
from hermes.store.unfinished_folders import making, sweep

KEY = "ab" + "0" * 62


def drafts(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "making").glob("*"))


class Interrupt:
    """Replaces a function of the system: its first call, or the moment after that call, is where a signal arrives.

    A signal has everything cleared away that stands in `_left_behind`; Ctrl-C inside a library raises.
    """

    def __init__(self, function: Callable[..., object], *, late: bool, left: Callable[[], list[str]]) -> None:
        self.function, self.late, self.left = function, late, left
        self.after_signal: list[str] | None = None

    def __call__(self, *given: object, **named: object) -> object:
        made = self.function(*given, **named) if self.late or self.after_signal is not None else None
        if self.after_signal is not None:
            return made
        self.after_signal = ["not cleared"]
        for clear in reversed(end_on_signal._left_behind):
            clear()
        self.after_signal = self.left()
        raise KeyboardInterrupt


def interrupted(
    do: Callable[[], object], where: object, name: str, *, late: bool, left: Callable[[], list[str]]
) -> tuple[list[str] | None, list[str]]:
    """What is left of `do` after a signal at a function, and after an interrupt that raises there."""
    interrupt = Interrupt(getattr(where, name), late=late, left=left)
    with pytest.MonkeyPatch.context() as patched:
        # A function of Python becomes a method of its class, an object does not.
        patched.setattr(where, name, lambda *given, **named: interrupt(*given, **named))
        with pytest.raises(KeyboardInterrupt):
            do()
    return interrupt.after_signal, left()


WHEN = pytest.mark.parametrize("late", [False, True], ids=["before", "after"])


@WHEN
@pytest.mark.parametrize(
    ("where", "name"), [(Path, "mkdir"), (os, "open"), (fcntl, "flock"), (os, "fstat"), (Path, "lstat")],
    ids=["mkdir", "open", "flock", "fstat", "lstat"],
)  # fmt: skip
def test_an_interrupt_while_a_draft_is_made_leaves_none(tmp_path: Path, where: object, name: str, late: bool) -> None:
    def make() -> None:
        with making(tmp_path):
            pytest.fail("nothing was interrupted")

    (tmp_path / "making").mkdir()
    assert interrupted(make, where, name, late=late, left=lambda: drafts(tmp_path)) == ([], [])


@WHEN
def test_an_interrupt_while_a_draft_is_moved_into_the_cache_leaves_none(tmp_path: Path, late: bool) -> None:
    store = Cache(tmp_path)

    def keep() -> None:
        with store.making() as folder:
            (folder / "kernel.parquet").write_text("rows")
            store.keep(KEY, folder, {})

    assert interrupted(keep, Path, "rename", late=late, left=lambda: drafts(tmp_path)) == ([], [])
    assert (store.find(KEY) is not None) == late


@WHEN
@pytest.mark.parametrize("name", ["mkdir", "open", "fchmod", "replace"])
def test_an_interrupt_while_a_file_is_written_leaves_no_draft_beside_it(tmp_path: Path, name: str, late: bool) -> None:
    def write() -> None:
        with write_atomic(tmp_path / "report.json") as file:
            file.write(b"{}")

    def left() -> list[str]:
        return [path.name for path in tmp_path.glob(".write-*")]

    assert interrupted(write, os, name, late=late, left=left) == ([], [])
    assert (tmp_path / "report.json").exists() == (name == "replace" and late)


@WHEN
def test_an_interrupt_while_a_temporary_folder_is_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    def make() -> None:
        with folder_aside():
            pytest.fail("nothing was interrupted")

    def left() -> list[str]:
        return [path.name for path in tmp_path.iterdir()]

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert interrupted(make, Path, "mkdir", late=late, left=left) == ([], [])


@pytest.mark.parametrize("name", ["draft-0", "gone-0", "new-0", "held-0"])
def test_what_a_dead_process_left_is_no_fault_and_goes_when_the_cache_is_used_next(tmp_path: Path, name: str) -> None:
    """Nobody can clear up after SIGKILL or a power cut. No process has locked what is left then."""
    (tmp_path / "making" / name / "scratch").mkdir(parents=True)
    with making(tmp_path) as mine:
        assert drafts(tmp_path) == [mine.name]
    assert drafts(tmp_path) == []


def test_a_draft_that_a_process_works_on_is_kept(tmp_path: Path) -> None:
    with making(tmp_path) as first, making(tmp_path) as second:
        sweep(tmp_path)
        assert drafts(tmp_path) == sorted([first.name, second.name])


def test_a_draft_that_another_process_takes_for_a_left_one_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between making and locking a folder: for others nobody works on it."""
    original, removed = unfinished_folders.private_folder, []

    def made_and_swept(folder: Path) -> None:
        original(folder)
        if len(removed) < 2:
            sweep(tmp_path)
            removed.append(folder.exists())

    monkeypatch.setattr(unfinished_folders, "private_folder", made_and_swept)
    with making(tmp_path) as folder:
        assert removed == [False, False]
        sweep(tmp_path)
        assert folder.is_dir()


def test_without_locks_a_draft_counts_as_left_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(38, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refused)
    left = tmp_path / "making" / "draft-0"
    left.mkdir(parents=True)
    with making(tmp_path) as mine:
        assert drafts(tmp_path) == sorted([left.name, mine.name])
        os.utime(left, (0, 0))
        sweep(tmp_path)
        assert drafts(tmp_path) == [mine.name]


class Held(BaseException):
    """A thread is held: it goes no further."""


@pytest.mark.parametrize(("ended_by_other", "held"), [(1, True), (0, False)])
def test_a_thread_begins_no_draft_once_another_one_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_by_other: int, held: bool
) -> None:
    """The analysis of `hermes serve` goes on in its thread while another thread clears up after Ctrl-C."""

    def hold(_seconds: float) -> None:
        raise Held

    ending = _thread.allocate_lock()
    ending.acquire()
    monkeypatch.setattr(end_on_signal, "_ending", ending)
    monkeypatch.setattr(end_on_signal, "_ended_by", _thread.get_ident() + ended_by_other)
    monkeypatch.setattr(end_on_signal, "time", SimpleNamespace(sleep=hold))
    seen: list[str] = []
    try:
        with making(tmp_path):
            seen = drafts(tmp_path)
    except Held:
        seen = ["held", *drafts(tmp_path)]
    assert (seen == ["held"]) == held
