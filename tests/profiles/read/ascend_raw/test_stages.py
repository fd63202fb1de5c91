"""The databases that an export leaves inside `PROF_*` become the tables that its exported database would give."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.profiles.read.ascend_raw.staged_export import leave_stages

from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
from hermes.store.input_files import walk
from hermes_testing import Job, generate

_JOB = Job(ranks=2, steps=2, seed=3)
_KERNEL = (
    "name", "type", "component", "unit", "task_type", "device_id", "stream", "start_ns", "dur_ns", "step",
    "correlation", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes", "blocks",
    "mix_blocks",
)  # fmt: skip


def _read(root: Path, folder: Path) -> Sink:
    reader = AscendReader()
    (source,) = reader.claim(walk([root]))
    sink = Sink(folder, 0)
    reader.read(source, 0, sink)
    sink.fill()
    return sink


@pytest.fixture(scope="module", params=["older", "newer"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sink, Sink]:
    """The tables of one rank out of the databases inside `PROF_*` and out of its export."""
    made = generate(tmp_path_factory.mktemp("made"), _JOB, formats=["ascend-raw", "ascend-db"])
    raw, exported = (sorted((made / form).glob("*_ascend_pt"))[0] for form in ("ascend-raw", "ascend-db"))
    leave_stages(raw, exported, newer=request.param == "newer")
    folder = tmp_path_factory.mktemp("tables")
    return _read(raw, folder / "raw"), _read(exported, folder / "db")


def test_every_task_is_that_of_the_export(both: tuple[Sink, Sink]) -> None:
    staged, exported = (sink.read("kernel").sort("start_ns", "stream", "name", "task_id") for sink in both)
    assert staged.height == exported.height > 100
    for column in _KERNEL:
        assert staged[column].to_list() == exported[column].to_list(), column


def test_collectives_have_their_time_group_and_bytes(both: tuple[Sink, Sink]) -> None:
    columns = ["name", "op", "group", "bytes", "count", "dtype", "algorithm", "step"]
    staged, exported = (sink.read("comm_op").sort("start_ns") for sink in both)
    assert staged.select(columns).rows() == exported.select(columns).rows()
    assert staged.height
    # The older layout has the time of a collective's tasks alone; the export's lies a few hundred nanoseconds around.
    for column in ("start_ns", "dur_ns"):
        assert (staged[column] - exported[column]).abs().max() <= 300


def test_transfers_belong_to_their_collective(both: tuple[Sink, Sink]) -> None:
    columns = ["comm_id", "task", "plane", "src_rank", "dst_rank", "bytes", "transport", "link", "start_ns", "dur_ns"]
    staged, exported = (sink.read("comm_task").sort(columns).select(columns).rows() for sink in both)
    assert staged == exported
    assert staged


def test_counters_are_those_of_the_export(both: tuple[Sink, Sink]) -> None:
    staged, exported = (
        sink.read("pmu").group_by("name").agg(pl.col("value").sum().round(3)).sort("name").rows() for sink in both
    )
    assert staged == exported


def test_calls_and_launches_lie_where_the_export_has_them(both: tuple[Sink, Sink]) -> None:
    kinds = ["acl", "node", "runtime", "hccl"]
    calls = [sink.read("host_op").filter(pl.col("kind").is_in(kinds)) for sink in both]
    staged, exported = (
        rows.select("kind", "name", "tid", (pl.col("start_ns") + 5) // 20).sort("kind", "name", "start_ns")
        for rows in calls
    )
    assert staged.select("kind", "name", "tid").rows() == exported.select("kind", "name", "tid").rows()
    launched = [sink.read("kernel")["launch_ns"].drop_nulls().len() for sink in both]
    assert launched[0] == launched[1]
    assert both[0].read("rank")["format"].item() == "ascend-sqlite+raw"


def test_without_records_of_the_framework_the_device_is_read_all_the_same(tmp_path: Path) -> None:
    made = generate(tmp_path / "made", _JOB, formats=["ascend-raw", "ascend-db"])
    raw, exported = (sorted((made / form).glob("*_ascend_pt"))[0] for form in ("ascend-raw", "ascend-db"))
    leave_stages(raw, exported, newer=True)
    (prof,) = raw.glob("PROF_*")
    alone = tmp_path / prof.name
    shutil.copytree(prof, alone)
    sink = _read(alone, tmp_path / "tables")
    assert sink.rows("kernel") > 100
    assert sink.read("rank")["format"].item() == "ascend-sqlite"


def test_a_broken_database_is_noted_and_the_others_are_read(tmp_path: Path) -> None:
    made = generate(tmp_path / "made", _JOB, formats=["ascend-raw", "ascend-db"])
    raw, exported = (sorted((made / form).glob("*_ascend_pt"))[0] for form in ("ascend-raw", "ascend-db"))
    leave_stages(raw, exported, newer=True)
    (broken,) = raw.glob("PROF_*/host/sqlite/ge_info.db")
    broken.write_bytes(b"no database")
    sink = _read(raw, tmp_path / "tables")
    assert sink.rows("kernel") > 100
    assert any("ge_info.db" in note.where for note in sink.notes)
