"""Time and memory are bounded by the size of an input: so many seconds and megabytes, and some more for each byte.

A law, not a budget: the figures are so generous that a machine with other work passes, and each shape went beyond them
before Hermes had limits. Seconds are those of the processor, which other work does not change much.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bad_input import costly
from tests.skips import bound_by_modes

from hermes.profiles.load import load
from hermes.store.cache import Cache

pytestmark = pytest.mark.live

BASE_S, S_PER_BYTE = 20, 10e-6
"""A start with all libraries takes two to four of these seconds; a text trace about 0.1 us a byte."""
BASE_BYTES, BYTES_PER_BYTE = 800 << 20, 100
ANALYZE, COMPARE = ("analyze", "{}"), ("precision", "compare", "{}", "{}")
CASES: tuple[tuple[Callable[[Path], Path], tuple[str, ...]], ...] = (
    (costly.a_thousand_threads, ANALYZE),
    (costly.a_thousand_processes, ANALYZE),
    (costly.sparse_members, ANALYZE),
    (costly.many_deep_folders, ANALYZE),
    (costly.sparse_trace, ANALYZE),
    (costly.sparse_recording, COMPARE),
    (costly.sparse_dump, COMPARE),
    (costly.link_to_proc, ANALYZE),
    (costly.diamonds, ANALYZE),
)


@pytest.mark.parametrize(("shape", "words"), CASES, ids=[f"{shape.__name__}-{words[0]}" for shape, words in CASES])
def test_what_an_input_costs_is_bounded_by_its_size(
    tmp_path: Path, shape: Callable[[Path], Path], words: tuple[str, ...]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    given = shape(folder)
    size = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file() and _below(path, folder))
    seconds, most = BASE_S + S_PER_BYTE * size, BASE_BYTES + BYTES_PER_BYTE * size

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 2))

    with (tmp_path / "out").open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "hermes", *(word.format(given) for word in words)], preexec_fn=bounded,
            env=os.environ | {"HERMES_CACHE_DIR": str(tmp_path / "cache")}, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    said = (tmp_path / "out").read_text("utf-8", "replace")[-2000:]
    assert child.returncode in (0, 1, 2), f"{child.returncode} after {used.ru_utime + used.ru_stime:.1f} s: {said}"
    assert used.ru_maxrss << 10 <= most, f"{used.ru_maxrss >> 10} MB for {size} bytes: {said}"
    assert "Traceback" not in said


def _below(path: Path, folder: Path) -> bool:
    """Whether a file is part of the input, and not behind a link."""
    return path.resolve().is_relative_to(folder)


def test_what_may_not_be_read_is_said_and_the_other_ranks_are_read(tmp_path: Path) -> None:
    traces = [tmp_path / "in" / f"host{rank}" / f"rank{rank}.pt.trace.json" for rank in range(6)]
    for path in traces:
        path.parent.mkdir(parents=True)
        costly.trace(path)
    os.truncate(costly.trace(tmp_path / "in" / "rank6.pt.trace.json"), 12 << 30)
    closed = (traces[4].parent, traces[5])
    for path in closed:
        path.chmod(0)
    try:
        with bound_by_modes():
            loaded = load([tmp_path / "in"], Cache(tmp_path / "cache"))
    finally:
        closed[0].chmod(0o700)
    assert [rank.rank for rank in loaded.ranks] == [0, 1, 2, 3]
    said = {note.where: note for note in loaded.notes if note.level == "degraded"}
    assert {*map(str, closed), str(tmp_path / "in" / "rank6.pt.trace.json")} <= said.keys()
    assert "HERMES_LIMIT_ARCHIVE_RATIO" in said[str(tmp_path / "in" / "rank6.pt.trace.json")].hint
