"""What must not change the measures: repeating a step, the order and the names of ranks' folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.report_json import to_json
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate


def analyzed(path: Path, cache: Path) -> Report:
    return analyze(load([path], Cache(cache)))


def per_step(report: Report) -> dict[str, object]:
    """What is said of a step, without where it stands in time and without what counts over the capture.

    Gains, and the order that they make, are left out: the first step of a capture has no step before it.
    """
    told = json.loads(to_json(report))
    typical = next(row for row in told["steps"] if row["step"] == told["critical_path"][0]["step"])
    return {
        "step": {key: value for key, value in typical.items() if key not in ("step", "start_ns")},
        "path": [(row["of_rank"], row["component"], row["reason"], row["ms"]) for row in told["critical_path"]],
        "rivals": [(row["component"], row["where"], row["ms"]) for row in told["critical_path_rivals"]],
        "findings": sorted((row["code"], row["cost_ms"], str(row["blames"])) for row in told["findings"]),
    }


@pytest.mark.live
def test_more_copies_of_a_step_change_no_measure_of_it(shared: Path, tmp_path: Path) -> None:
    """The copies lie 400 ms apart, so that steps with one before them are longer than the step that was recorded."""
    reports = []
    for times in (4, 48):
        many = tmp_path / f"{times}" / "rank0_ascend_pt"
        many.parent.mkdir()
        one = shared / "ascend" / "alexnet_text_level2" / "rank0_ascend_pt"
        tool = shared.parent / "tools" / "make_big_ascend.py"
        subprocess.run([sys.executable, tool, one, many, "--repeat", str(times)], check=True, capture_output=True)
        reports.append(analyzed(many, tmp_path / "cache"))
        assert len(reports[-1].steps) == times
    few, more = map(per_step, reports)
    for key in few:
        assert more[key] == few[key], key


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = (Fault(kind="slow_rank_host", ranks=(2,)),)
    return generate(tmp_path_factory.mktemp("job") / "job", Job(ranks=4, steps=2, layers=2, faults=faults),
                    formats=["ascend-db", "ascend-text"])  # fmt: skip


def same(one: Report, other: Report) -> None:
    left, right = (json.loads(to_json(report)) for report in (one, other))
    for key in ("verdict", "steps", "totals", "critical_path", "critical_path_rivals", "idle_stretches", "rank_waits"):
        assert left[key] == right[key], key
    for key in ("code", "where", "blames", "cost_ms", "gain", "explained_by", "message"):
        assert [row[key] for row in left["findings"]] == [row[key] for row in right["findings"]], key
    assert left["plan"] == right["plan"]


def test_the_names_and_the_order_of_folders_change_nothing(job: Path, tmp_path: Path) -> None:
    folders = sorted(path for path in (job / "ascend-db").iterdir() if path.is_dir())
    for number, folder in enumerate(reversed(folders)):
        shutil.copytree(folder, tmp_path / "moved" / f"{number}_{folder.name}")
    same(analyzed(job / "ascend-db", tmp_path / "cache"), analyzed(tmp_path / "moved", tmp_path / "cache"))


def test_the_order_of_the_files_of_eight_real_ranks_changes_nothing(shared: Path, tmp_path: Path) -> None:
    packed = shared / "kineto/v100_dlrm_8ranks.tar.gz"
    with tarfile.open(packed) as there, tarfile.open(tmp_path / "turned.tar", "w") as turned:
        for member in reversed([one for one in there.getmembers() if one.isfile()]):
            turned.addfile(member, there.extractfile(member))
    same(analyzed(packed, tmp_path / "cache"), analyzed(tmp_path / "turned.tar", tmp_path / "cache"))


def test_text_and_database_of_one_run_give_the_same_measures(job: Path, tmp_path: Path) -> None:
    text, database = (analyzed(job / form, tmp_path / "cache") for form in ("ascend-text", "ascend-db"))
    left, right = (json.loads(to_json(report)) for report in (text, database))
    for one, other in zip(left["steps"], right["steps"], strict=True):
        for key in ("rank", "step", "window_ms", "compute_ms", "exposed_comm_ms", "free_ms"):
            assert one[key] == pytest.approx(other[key], abs=0.002), key
    assert left["verdict"]["bound"] == right["verdict"]["bound"]
    for key in ("code", "where", "blames", "explained_by"):
        assert [row[key] for row in left["findings"]] == [row[key] for row in right["findings"]], key
    for key in ("codes", "case", "after"):
        assert [row[key] for row in left["plan"]["actions"]] == [row[key] for row in right["plan"]["actions"]], key
