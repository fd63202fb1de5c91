"""Several runs, several jobs and several captures of a process in one folder: told apart by process, time and size."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.say import say
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.read.captures_of_run import moment_of
from hermes.profiles.read.discover import discover
from hermes.profiles.read.reader_interface import CaptureSource
from hermes.store.cache import Cache

START = 1_700_000_000
MINUTES_48 = 48 * 60


def written(folder: Path, names: Iterable[str], **job: Any) -> list[Path]:
    head = {"schemaVersion": 1, "deviceProperties": []} | ({"distributedInfo": job} if job else {})
    paths = [folder / name for name in names]
    for path in paths:
        event = {"ph": "X", "cat": "cpu_op", "name": path.name, "pid": 1, "tid": 1, "ts": 1, "dur": 1}
        path.write_text(json.dumps(head | {"traceEvents": [event]}))
    return paths


def named(pid: int, seconds: float) -> str:
    return f"node_{pid}.{int((START + seconds) * 1e9)}.pt.trace.json"


def chosen(paths: list[Path], capture: str = "") -> tuple[list[tuple[int, str]], str]:
    found, notes = discover(paths, capture=capture)
    return [(one.rank, one.source.files[0].name) for one in found], " ".join(say(note.message) for note in notes)


def test_two_captures_of_one_process_are_one_rank_and_the_latest_is_taken(tmp_path: Path) -> None:
    paths = written(tmp_path, [named(100, 0), named(100, 20)])
    found, said = chosen(paths)
    assert found == [(0, named(100, 20))]
    assert "captured 2 times" in said
    first = named(100, 0).split(".")[1]
    assert chosen(paths, capture=first)[0] == [(0, named(100, 0))]


def test_processes_that_wrote_at_one_time_are_ranks_of_one_run(tmp_path: Path) -> None:
    assert [rank for rank, _ in chosen(written(tmp_path, [named(100, 0), named(101, 8)]))[0]] == [0, 1]


def test_nine_runs_48_minutes_apart_are_not_nine_ranks(tmp_path: Path) -> None:
    paths = written(tmp_path, [named(100 + run, run * MINUTES_48) for run in range(9)])
    found, said = chosen(paths)
    assert found == [(0, named(108, 8 * MINUTES_48))]
    assert "captures of 9 runs" in said
    third = named(102, 2 * MINUTES_48)
    assert chosen(paths, capture=third.split(".")[1])[0] == [(0, third)]


def test_of_runs_the_one_with_the_most_ranks_is_taken(tmp_path: Path) -> None:
    late = named(200, MINUTES_48)
    found, _ = chosen(written(tmp_path, [named(100, 0), named(101, 3), late]))
    assert late not in [name for _, name in found]
    assert len(found) == 2


def test_all_ranks_captured_twice_are_of_one_time_each(tmp_path: Path) -> None:
    names = {rank: [f"node_{rank}.{int((START + at) * 1e9)}.pt.trace.json" for at in (0, 600)] for rank in (0, 1)}
    paths = [path for rank in (0, 1) for path in written(tmp_path, names[rank], rank=rank, world_size=2)]
    # The second capture of rank 1 was not copied: its first one is not held against the second of rank 0.
    found, said = chosen(paths[:3])
    assert found == [(0, names[0][0]), (1, names[1][0])]
    assert "captured at 2 different times" in said


def test_ranks_of_jobs_of_different_sizes_are_not_mixed(tmp_path: Path) -> None:
    large = [written(tmp_path, [f"big{rank}.json"], rank=rank, world_size=4)[0] for rank in range(4)]
    small = [written(tmp_path, [f"small{rank}.json"], rank=rank, world_size=2)[0] for rank in range(2)]
    found, said = chosen([*small, *large])
    assert [name for _, name in found] == [f"big{rank}.json" for rank in range(4)]
    assert "2 of a job of 2 ranks and 4 of a job of 4 ranks" in said


@pytest.mark.parametrize(
    ("capture", "seconds"),
    [("1700000000", 1.7e9), ("1700000000000", 1.7e9), ("1700000000000000000", 1.7e9), ("20231114221320", 1.7e9),
     ("20231114221320123", 1.7e9), ("20239914221320", None), ("step_3", None), ("99999999999999999", None),
     ("\u0661700000000", None)],
)  # fmt: skip
def test_the_moment_of_a_capture_is_read_from_its_name(capture: str, seconds: float | None) -> None:
    source = CaptureSource(reader="kineto", format="kineto", root=Path(), files=(), rank=None, capture=capture)
    assert moment_of(source) == seconds


def real(shared: Path, folder: Path, names: Iterable[str], apart_ns: int) -> Path:
    trace = json.loads(gzip.decompress((shared / "kineto/mi300_bert_small_inference.json.gz").read_bytes()))
    base = trace["baseTimeNanoseconds"]
    for number, name in enumerate(names):
        trace["baseTimeNanoseconds"] = base + number * apart_ns
        (folder / name).write_text(json.dumps(trace))
    return folder


def test_files_without_ranks_that_did_not_run_at_once_are_captures_and_no_ranks(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    report = analyze(load([real(shared, folder, ["a.json", "b.json"], MINUTES_48 * 10**9)], Cache(tmp_path / "cache")))
    assert [(one.rank, Path(one.path).name) for one in report.inputs] == [(0, "b.json")]
    assert any("captures of one process" in say(note.message) for note in report.diagnostics)
    assert "wait" not in say(report.verdict.message)


def test_files_without_ranks_that_ran_at_once_stay_ranks(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    loaded = load([real(shared, folder, ["a.json", "b.json"], 1_000)], Cache(tmp_path / "cache"))
    assert [rank.rank for rank in loaded.ranks] == [0, 1]
