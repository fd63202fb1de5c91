"""Runs the examples of `docs/python.md`, which use Hermes from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import hermes
from hermes.base.errors import InputError
from hermes_testing import Fault, Job, generate


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> hermes.Analysis:
    place = tmp_path_factory.mktemp("python")
    job = Job(ranks=2, steps=2, layers=1, faults=(Fault(kind="gc_pause", ranks=(1,)),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_CACHE_DIR", str(place / "cache"))
        return hermes.analyze(generate(place / "job", job, formats=["kineto"]))


def test_the_answer_is_a_sentence_with_findings_that_have_a_cost(analysis: hermes.Analysis) -> None:
    assert analysis.verdict.startswith("2 steps of ")
    assert all(one.cost_ns >= 0 for one in analysis.findings)
    assert len(analysis.findings) > 0


def test_steps_are_a_frame_whose_parts_add_up(analysis: hermes.Analysis) -> None:
    parts = pl.col("compute_ns") + pl.col("exposed_comm_ns") + pl.col("copy_exposed_ns") + pl.col("free_ns")
    assert analysis.steps.height == 4
    assert analysis.steps.select((parts == pl.col("window_ns")).all()).item()


def test_measures_are_frames_by_kind(analysis: hermes.Analysis) -> None:
    assert analysis.measures["StepSplit"].equals(analysis.steps)
    assert {"OperatorCost", "GroupOp", "KernelTop"} <= set(analysis.measures)
    assert sorted(set(analysis.measures["RankTotal"]["rank"])) == [0, 1]


def test_queries_reach_the_tables(analysis: hermes.Analysis) -> None:
    assert analysis.sql("SELECT count(DISTINCT rank) AS n FROM kernel")["n"].to_list() == [2]


def test_json_is_the_report_and_a_notebook_shows_the_verdict(analysis: hermes.Analysis) -> None:
    assert json.loads(analysis.to_json())["verdict"]["message"]["text"] == analysis.verdict
    assert "<b>2 steps of " in analysis._repr_html_()


def test_a_run_compared_with_itself_is_as_fast(analysis: hermes.Analysis) -> None:
    found = hermes.compare(analysis, analysis)
    assert found.step.before_ns == found.step.after_ns


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        hermes.load(tmp_path)


@pytest.mark.live
def test_the_package_itself_imports_nothing() -> None:
    program = (
        "import sys; before = set(sys.modules); import hermes; "
        "print(sorted(name for name in set(sys.modules) - before if name not in ('hermes', '__future__')))"
    )
    made = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert made.stdout.strip() == "[]"
