"""A file that no finding rests on may be damaged: coverage and confidence fall, and all else stays as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.each import sampled

from hermes.model.finding import Loss
from hermes.model.report import Report
from hermes.model.tables import TABLES
from hermes.profiles.api import analyze, load
from hermes.profiles.load import Loaded
from hermes.profiles.measure.registry import ACCOUNTED, RankTables, every_measure
from hermes.profiles.rules import ALL
from hermes.store.cache import Cache
from hermes.store.rank_data import RankData
from hermes_testing import Fault, Format, Job, generate

_LATE, _OTHER = 1, 2
"""The rank on which something is planted, and the one whose files are damaged."""
_UNUSED = (
    "api_statistic.csv", "communication.json", "memory_record.csv", "npu_module_mem.csv", "op_statistic.csv",
    "operator_details.csv", "operator_memory.csv", "step_trace_time.csv",
)  # fmt: skip
"""Files of a rank on Ascend that say nothing of a compilation, or of whom it makes wait."""
_USED = ("kernel_details.csv", "trace_view.json")


@dataclass(frozen=True, slots=True)
class Planted:
    """A job of which one rank has a fault, and what Hermes says of it."""

    folder: Path
    cache: Cache
    loaded: Loaded
    report: Report

    @property
    def tables(self) -> frozenset[str]:
        """The tables that its findings rest on, as their rules declare."""
        stated = {one.code for one in (*self.report.findings, *self.report.plan.minor)}
        return ACCOUNTED.union(*(one.tables for rule in ALL if rule.code in stated for one in rule.finders))

    def again(self, folder: Path) -> tuple[Report, frozenset[str]]:
        """The report on a damaged copy, and the tables that the damage changed."""
        loaded = load([folder], self.cache)
        pairs = list(zip(self.loaded.ranks, loaded.ranks, strict=True))
        changed = {name for name in TABLES for one, other in pairs if not one.table(name).equals(other.table(name))}
        return analyze(loaded), frozenset(changed)


def _planted(root: Path, form: Format, kind: Any) -> Planted:
    job = Job(ranks=3, steps=2, layers=2, seed=0, faults=(Fault(kind=kind, ranks=(_LATE,)),))
    folder, cache = generate(root / "job", job, formats=[form]), Cache(root / "cache")
    loaded = load([folder], cache)
    return Planted(folder, cache, loaded, analyze(loaded))


@pytest.fixture(scope="module")
def compiles(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """One rank on Ascend compiles operators in every step."""
    return _planted(tmp_path_factory.mktemp("compiles"), "ascend-text", "recompilation")


@pytest.fixture(scope="module")
def reads_back(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """One rank on a GPU reads numbers back from its device in every step."""
    return _planted(tmp_path_factory.mktemp("reads_back"), "kineto", "synchronisation_calls")


def _halved(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


_HARM = {"half": _halved, "empty": lambda path: path.write_bytes(b""), "gone": Path.unlink}


def _said(report: Report) -> list[object]:
    def of(one: Loss) -> tuple[object, ...]:
        return one.code, one.ranks, one.blames, one.cost_ns, one.gain, one.explained_by, one.state

    plan = [(one.codes, one.gain, one.title, one.do) for one in report.plan.actions]
    return [*map(of, (*report.findings, *report.plan.minor)), plan, report.verdict]


def _rank_folder(folder: Path, rank: int) -> Path:
    return next(folder.rglob(f"profiler_info_{rank}.json")).parent


@pytest.mark.parametrize("how", sampled(sorted(_HARM), "half"))
def test_files_that_no_finding_rests_on_change_confidence_alone(how: str, compiles: Planted, tmp_path: Path) -> None:
    explained = {one.code: one.explained_by for one in compiles.report.findings}
    assert "CPU002" in explained["COM002"]
    folder = Path(shutil.copytree(compiles.folder, tmp_path / "job"))
    files = [path for name in _UNUSED for path in folder.rglob(name)]
    assert len(files) == 3 * len(_UNUSED)
    for path in files:
        _HARM[how](path)
    report, changed = compiles.again(folder)
    assert changed == {"allocation", "comm_reported", "comm_traffic", "memory", "statistic", "step_reported"}
    assert not changed & compiles.tables
    assert _said(report) == _said(compiles.report)
    assert report.coverage != compiles.report.coverage
    sure = [sum(one.confidence for one in told.findings) for told in (report, compiles.report)]
    # A file that is not there at all may never have been written.
    assert sure[0] == sure[1] if how == "gone" else sure[0] < sure[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["memory_record.csv", "communication_matrix.json", "profiler_metadata.json"])
def test_one_file_of_another_rank_changes_confidence_alone(name: str, compiles: Planted, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(compiles.folder, tmp_path / "job"))
    (path,) = _rank_folder(folder, _OTHER).rglob(name)
    _halved(path)
    report, changed = compiles.again(folder)
    assert changed
    assert _said(report) == _said(compiles.report)


def test_what_remains_is_what_the_findings_rest_on(compiles: Planted) -> None:
    names = {path.name for path in _rank_folder(compiles.folder, _OTHER).rglob("*") if path.is_file()}
    assert names - {*_UNUSED} == {
        *_USED, "communication_matrix.json", "profiler_metadata.json", f"profiler_info_{_OTHER}.json",
    }  # fmt: skip


@pytest.mark.parametrize("kept", sampled([0.5, 0.0], 0.5))
def test_memory_events_of_a_trace_explain_nothing_of_reading_back(
    kept: float, reads_back: Planted, tmp_path: Path
) -> None:
    explained = {one.code: one.explained_by for one in reads_back.report.findings}
    assert "CPU003" in explained["COM002"]
    folder = Path(shutil.copytree(reads_back.folder, tmp_path / "job"))
    (folder / "truth.json").unlink()
    for path in folder.glob("rank*.json"):
        document = json.loads(path.read_text("utf-8"))
        memory = [one for one in document["traceEvents"] if one["name"] == "[memory]"]
        left = memory[: int(len(memory) * kept)]
        document["traceEvents"] = [one for one in document["traceEvents"] if one["name"] != "[memory]"] + left
        path.write_text(json.dumps(document), "utf-8")
    report, changed = reads_back.again(folder)
    assert changed == {"allocation", "memory"}
    assert not changed & reads_back.tables
    assert _said(report) == _said(reads_back.report)


def test_a_measure_declares_the_tables_that_it_reads(
    compiles: Planted, reads_back: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        def reads(self: RankData, name: str, *arguments: Any) -> Any:
            read.add(name)
            return method(self, name, *arguments)

        return reads

    for way in ("table", "where", "between"):
        monkeypatch.setattr(RankData, way, noted(getattr(RankData, way)))
    undeclared = []
    for one in every_measure():
        read.clear()
        for job in (compiles, reads_back):
            one.rows(RankTables(job.loaded.ranks[_LATE]))
        undeclared += [(one.name, name) for name in sorted(read - ACCOUNTED - {*one.beside})]
    assert undeclared == []
