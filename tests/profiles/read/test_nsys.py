"""Exported reports of Nsight Systems: the same job says the same as its Kineto trace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.model.compute_measures import OperatorCost
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import LeafTime
from hermes.model.report import Report
from hermes.model.step_measures import OperatorTop
from hermes.profiles.api import analyze, load
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate
from hermes_testing.nsys import write_nsys

JOB = Job(ranks=2, steps=3, layers=2)


def _report(path: Path, cache: Path) -> Report:
    return analyze(load([path], Cache(cache)))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report, Path]:
    """The job from its Kineto traces and from a report of Nsight Systems."""
    folder = tmp_path_factory.mktemp("nsys")
    kineto = generate(folder / "kineto", JOB, formats=["kineto"])
    (folder / "report").mkdir()
    report = write_nsys(folder / "report" / "report1.sqlite", sorted(kineto.rglob("*.pt.trace.json")))
    return _report(kineto, folder / "cache"), _report(report, folder / "cache"), report


def test_steps_divide_as_in_the_trace_to_the_nanosecond(both: tuple[Report, Report, Path]) -> None:
    kineto, nsys, _ = both

    def parts(report: Report) -> list[tuple[object, ...]]:
        return [
            (step.rank, step.step, step.window_ns, step.compute_ns, step.exposed_comm_ns, step.free_ns)
            for step in report.steps
        ]

    assert len(parts(nsys)) == 6
    assert parts(nsys) == parts(kineto)


def test_kernels_have_their_operator_shapes_and_launch(both: tuple[Report, Report, Path]) -> None:
    kineto, nsys, _ = both

    def top(report: Report) -> list[tuple[object, ...]]:
        return [(row.name, row.count, row.total_ns) for row in report.rows(OperatorTop) if row.total_ns]

    assert len(top(nsys)) > 3
    assert set(top(nsys)) <= set(top(kineto))
    # NVTX tells shapes and no types: so many operations a product has in either.
    products = [
        {(one.operator, one.shapes, one.calls, one.ns, one.flops) for one in report.rows(OperatorCost) if one.flops}
        for report in (nsys, kineto)
    ]
    assert len(products[0]) > 3
    assert products[0] <= products[1]


def test_the_processes_of_a_report_are_ranks_and_said_to_be_assumed(both: tuple[Report, Report, Path]) -> None:
    _, nsys, _ = both
    assert [one.rank for one in nsys.inputs] == [0, 1]
    assert {one.format for one in nsys.inputs} == {"nsys"}
    assert any("no file names the rank of this capture" in say(note.message) for note in nsys.diagnostics)


def test_a_fault_is_named_as_from_the_trace(tmp_path: Path) -> None:
    job = Job(ranks=1, steps=3, layers=2, faults=(Fault(kind="synchronisation_calls"),))
    kineto = generate(tmp_path / "kineto", job, formats=["kineto"])
    report = write_nsys(tmp_path / "report1.sqlite", sorted(kineto.rglob("*.pt.trace.json")))
    assert _report(report, tmp_path / "cache").findings[0].code == "CPU003"


def test_without_operators_there_are_kernels_and_ranges_and_it_is_said(tmp_path: Path) -> None:
    kineto = generate(tmp_path / "kineto", Job(ranks=1, steps=2, layers=1), formats=["kineto"])
    write_nsys(tmp_path / "r.sqlite", sorted(kineto.rglob("*.pt.trace.json")), operators=False)
    loaded = load([tmp_path / "r.sqlite"], Cache(tmp_path / "cache"))
    assert loaded.ranks[0].table("host_op")["kind"].unique().sort().to_list() == ["driver", "mark", "runtime"] or (
        loaded.ranks[0].table("host_op")["kind"].unique().sort().to_list() == ["mark", "runtime"]
    )
    assert any("no operator of the framework" in say(note.message) for note in loaded.notes)
    assert len(analyze(loaded).steps) == 2


def test_domains_marks_and_whole_graphs(tmp_path: Path) -> None:
    kineto = generate(tmp_path / "kineto", Job(ranks=1, steps=2, layers=1), formats=["kineto"])
    path = write_nsys(tmp_path / "r.sqlite", sorted(kineto.rglob("*.pt.trace.json")))
    with closing(sqlite3.connect(path)) as con, con:
        ((start, thread),) = con.execute("SELECT min(start), globalTid FROM NVTX_EVENTS").fetchall()
        con.execute("INSERT INTO StringIds VALUES (9000, 'ncclAllReduce')")
        con.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(start, None, 75, "NCCL", thread, None, 7), (start + 5, start + 9, 59, None, thread, 9000, 7),
             (start + 6, None, 34, "here", thread, None, 0), (start + 7, None, 59, "open", thread, None, 0)],
        )  # fmt: skip
        con.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, contextId INT, "
                    "streamId INT, correlationId INT, globalPid INT)")  # fmt: skip
        con.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, 0, 1, 7, 1, ?)",
                    (start + 1, start + 4, thread & ~0xFFFFFF))  # fmt: skip
    loaded = load([path], Cache(tmp_path / "cache"))
    marks = loaded.ranks[0].table("host_op", "name", "domain", "dur_ns")
    assert {("ncclAllReduce", "NCCL", 4), ("here", None, 0)} <= set(marks.rows())
    assert "open" not in marks["name"]
    assert "CUDA graph" in loaded.ranks[0].table("kernel")["name"]
    assert any("recorded as a whole" in say(note.message) for note in loaded.notes)


def test_beside_captures_of_the_framework_it_is_not_read(tmp_path: Path) -> None:
    kineto = generate(tmp_path / "job", Job(ranks=1, steps=2, layers=1), formats=["kineto"])
    write_nsys(kineto / "r.sqlite", sorted(kineto.rglob("*.pt.trace.json")))
    loaded = load([kineto], Cache(tmp_path / "cache"))
    assert [rank.format for rank in loaded.ranks] == ["kineto"]
    assert any("exported report of NVIDIA Nsight Systems" in say(note.message) for note in loaded.notes)


def _of_host(folder: Path, *ranges: tuple[int, int, str]) -> Path:
    """A report of a process that did nothing on a device: ranges by start, end in ms, and text."""
    path = write_nsys(folder / "host.sqlite", [])
    thread = (77 << 24) + 5
    with closing(sqlite3.connect(path)) as con, con:
        con.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, NULL, 0)",
            [(start * 1_000_000, end * 1_000_000, text, thread) for start, end, text in ranges],
        )
    return path


def test_without_work_of_a_device_ranges_and_compilations_are_leaves(tmp_path: Path) -> None:
    path = _of_host(tmp_path, (0, 100, "load"), (10, 70, "Nvrtc::CompileProgram"), (100, 120, "forward"))
    report = _report(path, tmp_path / "cache")
    spent = {(row.leaf, row.what): row.total_ns // 1_000_000 for row in report.rows(LeafTime)}
    assert spent[Leaf.COMPILING, "Nvrtc::CompileProgram"] == 60
    assert spent[Leaf.OTHER_COMPUTE, "load"] == 40
    assert spent[Leaf.OTHER_COMPUTE, "forward"] == 20
    assert sum(spent.values()) == 120
    assert "compil" in say(report.verdict.message)
    assert any("no work of a device is in the report" in say(note.message) for note in report.diagnostics)


def test_steps_of_a_host_are_steps_and_no_work(tmp_path: Path) -> None:
    steps = [(10 * number, 10 * number + 10, f"iteration {number}") for number in range(3)]
    path = _of_host(tmp_path, *steps, *((start + 2, end - 2, "tokenise") for start, end, _ in steps))
    data = load([path], Cache(tmp_path / "cache")).ranks[0]
    assert data.table("step")["step"].to_list() == [0, 1, 2]
    assert set(data.table("host_op").filter(pl.col("kind") == "op")["name"]) == {"tokenise"}


def test_a_report_without_any_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        load([_of_host(tmp_path)], Cache(tmp_path / "cache"))
    assert "host.sqlite" in str(refused.value.where)
