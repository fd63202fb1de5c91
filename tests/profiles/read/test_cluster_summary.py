"""A finished `cluster_analysis_output` gives steps and sums of communication of every rank, and says what it lacks."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.profiles.api import analyze, load
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
from hermes.store.cache import Cache
from hermes.store.input_files import walk
from hermes_testing import Job, generate

_HEAD = (
    "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing,DP Index,PP Index,TP Index"
)
STEPS = f"""{_HEAD}
10,rank,0,800.5,100,50,150,99.5,1000,0,100,12,0,0,0
10,rank,1,600,300,50,350,100,1000,0,300,12,0,0,1
10,stage,"(0, 1)",800.5,300,50,350,100,1000,0,300,12,,,
"""
_TIMES = {
    "Start Timestamp(us)": 1_700_000_000_000_000.0, "Elapse Time(ms)": 0.3, "Transit Time(ms)": 0.2,
    "Wait Time(ms)": 0.1, "Synchronization Time(ms)": 0.1, "Idle Time(ms)": 0.0,
}  # fmt: skip
_TRAFFIC = {
    "HCCS": {"Transit Size(MB)": 4.0, "Transit Time(ms)": 0.2, "Bandwidth(GB/s)": 20.0, "Size Distribution": {}}
}
_RECORD = {"Communication Time Info": _TIMES, "Communication Bandwidth Info": _TRAFFIC}
COMMUNICATION = {"(0, 1)": {"step10": {"hcom_allReduce__1_0@77": {"0": _RECORD, "1": _RECORD}}}}
_LINK = {"Transport Type": "HCCS", "Transit Size(MB)": 4.0, "Transit Time(ms)": 0.2, "Bandwidth(GB/s)": 20.0}
MATRIX = {"(0, 1)": {"step10": {"allreduce-top1@77": {"0-1": _LINK, "1-0": _LINK}}}}
GROUPS = {"collective": [[0, 1]], "comm_group_parallel_info": [
    {"type": "collective", "rank_set": [0, 1], "group_name": "77", "group_id": "c%0", "pg_name": "tp"}]}  # fmt: skip


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    """The text form, as msprof-analyze writes it."""
    folder = tmp_path / "cluster_analysis_output"
    folder.mkdir()
    (folder / "cluster_step_trace_time.csv").write_text(STEPS, "utf-8")
    for name, content in (("communication", COMMUNICATION), ("communication_matrix", MATRIX)):
        (folder / f"cluster_{name}.json").write_text(json.dumps(content), "utf-8")
    (folder / "communication_group.json").write_text(json.dumps(GROUPS), "utf-8")
    return folder


def _database(folder: Path) -> Path:
    folder.mkdir()
    columns = (
        "step,type,'index',computing,communication_not_overlapped,overlapped,communication,free,stage,bubble,"
        "communication_not_overlapped_and_exclude_receive,preparing,dp_index,pp_index,tp_index"
    )
    with sqlite3.connect(folder / "cluster_analysis.db") as con:
        con.execute(f"CREATE TABLE ClusterStepTraceTime ({columns})")
        marks = ",".join("?" * 15)
        rows = [("10", "rank", str(rank), 800.5, 100, 50, 150, 99.5, 1000, 0, 100, 12, 0, 0, rank) for rank in (0, 1)]
        con.executemany(f"INSERT INTO ClusterStepTraceTime VALUES ({marks})", rows)
    con.close()
    return folder


def _read(folder: Path, rank: int) -> Sink:
    reader = AscendReader()
    source = next(one for one in reader.claim(walk([folder])) if one.rank == rank)
    sink = Sink(folder.parent / "tables", rank)
    reader.read(source, rank, sink)
    sink.fill()
    return sink


def test_each_rank_has_its_steps_its_sums_its_links_and_its_group(summary: Path) -> None:
    sink = _read(summary, 1)
    columns = ["step", "compute_ns", "exposed_comm_ns", "free_ns", "stage_ns"]
    assert sink.read("step_reported").select(columns).rows() == [(10, 600_000, 300_000, 100_000, 1_000_000)]
    assert sink.read("comm_reported").select("name", "group", "elapse_ns").rows() == [
        ("hcom_allReduce__1_0", "77", 300_000)
    ]
    assert sink.read("comm_link").select("src_rank", "dst_rank", "bytes").rows() == [(1, 0, 4_000_000)]
    assert sink.read("group").select("name", "global_rank").rows() == [("tp", 0), ("tp", 1)]
    assert sink.read("rank").select("tp", "dp", "pp").rows() == [(1, 0, 0)]


def test_a_database_alone_gives_the_steps(tmp_path: Path) -> None:
    sink = _read(_database(tmp_path / "cluster_analysis_output"), 0)
    assert sink.read("step_reported").select("compute_ns", "free_ns").rows() == [(800_500, 99_500)]


def test_the_report_divides_the_steps_and_says_what_is_not_there(summary: Path, tmp_path: Path) -> None:
    report = analyze(load([summary], Cache(tmp_path / "cache")))
    assert [(one.rank, one.window_ns, one.compute_ns) for one in report.steps] == [
        (0, 1_000_000, 800_500), (1, 1_000_000, 600_000)
    ]  # fmt: skip
    assert any("only the summary of another tool" in say(line) for line in report.coverage.missing)
    assert {row.state for row in report.coverage.files} == {"read"}


def test_captures_beside_a_summary_are_read_instead(summary: Path, tmp_path: Path) -> None:
    made = generate(tmp_path / "job", Job(ranks=1, steps=1, seed=0), formats=["ascend-text"])
    files = [*walk([made]), *walk([summary])]
    assert {source.format for source in AscendReader().claim(files)} == {"ascend-text"}


def test_a_table_cut_in_the_middle_of_a_row_loses_that_row_alone(summary: Path) -> None:
    path = summary / "cluster_step_trace_time.csv"
    path.write_text(STEPS[: STEPS.index("600,300") + 2], "utf-8")
    sink = _read(summary, 1)
    assert sink.rows("step_reported") == 0
    assert "1 row has no readable time" in [say(note.message) for note in sink.notes]
