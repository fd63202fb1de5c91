"""The framework's raw records become the same host calls as its export has; damaged ones are counted, never fatal."""

from __future__ import annotations

import json
from pathlib import Path
from struct import Struct

import polars as pl
import pytest

from hermes.base.say import say
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
from hermes.store.input_files import walk
from hermes_testing import Fault, Job, generate

_HEAD, _OP = Struct("<HI"), Struct("<3q4QB?")
_JOB = Job(ranks=1, steps=2, seed=3, faults=(Fault(kind="gc_pause"),), stacks=True)


def _read(root: Path, folder: Path) -> Sink:
    reader = AscendReader()
    (source,) = reader.claim(walk([root]))
    sink = Sink(folder, 0)
    reader.read(source, 0, sink)
    sink.fill()
    return sink


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sink, Sink]:
    """The tables of one job out of its raw records and out of its export."""
    made = generate(tmp_path_factory.mktemp("made"), _JOB, formats=["ascend-raw", "ascend-db"])
    folder = tmp_path_factory.mktemp("tables")
    return _read(made / "ascend-raw", folder / "raw"), _read(made / "ascend-db", folder / "db")


def _calls(sink: Sink, kind: str) -> list[tuple[object, ...]]:
    rows = sink.read("host_op").filter(pl.col("kind") == kind)
    # A count of the processor is ten nanoseconds long.
    picked = rows.select("name", "tid", pl.col("start_ns") // 10, "shapes", "dtypes", "sequence", "forward_tid", "step")
    return sorted(picked.with_columns(pl.col("name").str.replace("^Enqueue@?.*", "Enqueue")).rows(), key=str)


@pytest.mark.parametrize("kind", ["step", "op", "python", "enqueue", "dequeue"])
def test_calls_are_those_of_the_export(both: tuple[Sink, Sink], kind: str) -> None:
    raw, exported = both
    assert _calls(raw, kind) == _calls(exported, kind)
    assert _calls(raw, kind)


def test_steps_collections_and_the_place_in_the_job_are_those_of_the_export(both: tuple[Sink, Sink]) -> None:
    raw, exported = both
    for name, columns in (("step", ["step"]), ("gc", ["tid"]), ("rank", ["world_size", "tp", "pp", "dp", "framework"])):
        assert raw.read(name).select(columns).rows() == exported.read(name).select(columns).rows()


def test_blocks_of_memory_have_their_operator_and_their_end(both: tuple[Sink, Sink]) -> None:
    raw, exported = both
    columns = ["bytes", pl.col("alloc_ns") // 10, pl.col("release_ns") // 10]
    known = exported.read("allocation").sort("alloc_ns").select(columns).rows()
    assert raw.read("allocation").sort("alloc_ns").select(columns).rows() == known
    assert "aten::embedding" in raw.read("allocation")["name"].to_list()


def test_every_task_of_the_queue_has_an_arrow(both: tuple[Sink, Sink]) -> None:
    raw, _ = both
    flow = raw.read("flow")
    assert flow.height == raw.read("host_op").filter(pl.col("kind") == "enqueue").height
    assert (flow["dst_ns"] >= flow["src_ns"]).all()


def _one(name: str, start: int, end: int) -> bytes:
    body = _OP.pack(start, end, -1, 7, 8, 8, 0, 0, False) + _HEAD.pack(2, len(name)) + name.encode()
    return _HEAD.pack(1, len(body)) + body


def _capture(folder: Path, records: bytes, **info: object) -> Path:
    root = folder / "host_7_20250109084754000_ascend_pt"
    (root / "FRAMEWORK").mkdir(parents=True)
    (root / "FRAMEWORK" / "torch.op_range").write_bytes(records)
    (root / "profiler_info_0.json").write_text(json.dumps({"rank_id": 0, **info}), "utf-8")
    return root


def test_a_file_that_a_killed_job_left_is_read_up_to_its_last_whole_record(tmp_path: Path) -> None:
    whole = _one("ProfilerStep#4", 10_000, 90_000) + _one("aten::mm", 20_000, 30_000)
    sink = _read(_capture(tmp_path, whole + _one("aten::add", 40_000, 50_000)[:-3]), tmp_path / "out")
    assert sink.read("host_op")["name"].to_list() == ["ProfilerStep#4", "aten::mm"]
    assert sink.read("step")["step"].to_list() == [4]
    assert "1 record is cut off or damaged" in [say(note.message) for note in sink.notes]


def test_without_counts_and_without_a_pair_of_clocks_times_stay_as_recorded(tmp_path: Path) -> None:
    sink = _read(_capture(tmp_path, _one("aten::mm", 20_000, 30_000)), tmp_path / "out")
    assert sink.read("host_op").select("start_ns", "dur_ns").rows() == [(20_000, 10_000)]
    assert sink.read("rank")["epoch_ns"].to_list() == [None]


def test_counts_become_unix_time_by_the_pairs_in_profiler_info(tmp_path: Path) -> None:
    start = {"syscnt_enable": True, "freq": 100, "start_cnt": 1_000, "start_monotonic": 50_000}
    end = {"collectionTimeEnd": 1_700_000_000_000_000_000, "MonotonicTimeEnd": 60_000}
    root = _capture(tmp_path, _one("aten::mm", 1_100, 1_200), start_info=start, end_info=end)
    sink = _read(root, tmp_path / "out")
    assert sink.read("host_op")["start_ns"].to_list() == [1_700_000_000_000_000_000 - 60_000 + 50_000 + 1_000]


def test_mindspore_s_ranges_are_calls_of_the_framework(tmp_path: Path) -> None:
    fixed = Struct("<5Qi3Hb3?").pack(5, 0, 1, 20_000, 30_000, 7, 3, 1, 1, 0, False, False, False)
    name = b"PynativeFramework::RunOp::MatMul"
    body = fixed + _HEAD.pack(13, len(name)) + name
    root = tmp_path / "host_7_20250109084754000_ascend_ms"
    (root / "FRAMEWORK").mkdir(parents=True)
    (root / "FRAMEWORK" / "mindspore.op_range").write_bytes(_HEAD.pack(1, len(body)) + body)
    sink = _read(root, tmp_path / "out")
    assert sink.read("host_op").select("kind", "name", "tid", "start_ns", "dur_ns").rows() == [
        ("op", name.decode(), 5, 20_000, 10_000)
    ]
    assert sink.read("rank")["framework"].to_list() == ["mindspore"]


@pytest.mark.parametrize("junk", [b"", b"\0" * 4096, bytes(range(256)) * 9, b"\1\0\xff\xff\xff\xff"])
def test_junk_is_no_call_and_no_failure(tmp_path: Path, junk: bytes) -> None:
    assert _read(_capture(tmp_path, junk), tmp_path / "out").read("host_op").height == 0
