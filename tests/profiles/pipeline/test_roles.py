"""Roles of a job of reinforcement learning: by folders of captures as verl writes them, and by named ranges."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from hermes.base.say import say
from hermes.knowledge.roles import role_of
from hermes.model.report import Report
from hermes.model.role_measures import RoleTime
from hermes.profiles.api import analyze, load
from hermes.report.report_json import document
from hermes.report.text import render_text
from hermes.store.cache import Cache
from hermes_testing import Job, generate


def _role(folder: Path, layers: int, ranks: int = 2, seed: int = 0) -> None:
    """Captures of one role, of so many layers: the more, the longer."""
    made = generate(
        folder.parent / "made", Job(ranks=ranks, steps=1, layers=layers, seed=seed), formats=["ascend-text"]
    )
    folder.mkdir(parents=True)
    for capture in sorted(path for path in made.iterdir() if path.is_dir()):
        capture.rename(folder / capture.name)
    shutil.rmtree(folder.parent / "made")


@pytest.fixture
def verl(tmp_path: Path) -> Path:
    """Two steps of three roles; in both the rollout takes longest."""
    for step in (1, 2):
        _role(tmp_path / "verl" / str(step) / "actor_update", 2)
        _role(tmp_path / "verl" / str(step) / "rollout_generate", 6)
        _role(tmp_path / "verl" / str(step) / "ref_compute_log_prob", 1)
    return tmp_path / "verl"


def _analyzed(tmp_path: Path, path: Path, **options: str) -> Report:
    return analyze(load([path], Cache(tmp_path / "cache"), **options))  # type: ignore[arg-type]


def test_captures_by_role_are_told_by_step_and_the_longest_bounds_it(verl: Path, tmp_path: Path) -> None:
    report = _analyzed(tmp_path, verl)
    rows = report.rows(RoleTime)
    assert [(row.step, row.role, row.task, row.bounds) for row in rows] == [
        (step, *role)
        for step in (1, 2)
        for role in (
            ("rollout", "rollout_generate", True), ("actor", "actor_update", False),
            ("reference", "ref_compute_log_prob", False),
        )
    ]  # fmt: skip
    assert all(row.ranks == (0, 1) and row.source == "captures" for row in rows)
    assert all(0 < row.device_ns < row.wall_ns for row in rows)
    assert sum(row.share for row in rows) == pytest.approx(2)
    assert [row["task"] for row in document(report)["roles"] if row["bounds"]] == ["rollout_generate"] * 2


def test_the_report_is_of_the_role_that_takes_longest_and_says_so(verl: Path, tmp_path: Path) -> None:
    report = _analyzed(tmp_path, verl)
    assert all("/2/rollout_generate/" in one.path for one in report.inputs)
    (said,) = (note for note in report.diagnostics if "several roles" in say(note.message))
    assert "the report is of the role rollout_generate" in say(said.message)
    out = io.StringIO()
    render_text(report, Console(file=out, width=200))
    assert "Roles" in out.getvalue()
    assert {row.state for row in report.coverage.files if row.name == "kernel_details.csv"} == {"read"}


def test_another_role_can_be_chosen(verl: Path, tmp_path: Path) -> None:
    report = _analyzed(tmp_path, verl, capture="2/actor_update")
    assert all("/2/actor_update/" in one.path for one in report.inputs)


def test_traces_of_kineto_lie_below_their_roles_too(tmp_path: Path) -> None:
    for role, layers in (("actor_update", 1), ("rollout_generate", 3)):
        made = generate(tmp_path / "made", Job(ranks=2, steps=1, layers=layers), formats=["kineto"])
        (tmp_path / "verl" / "4").mkdir(parents=True, exist_ok=True)
        made.rename(tmp_path / "verl" / "4" / role)
    report = _analyzed(tmp_path, tmp_path / "verl")
    rows = report.rows(RoleTime)
    assert [(row.step, row.task, row.ranks) for row in rows] == [
        (4, "rollout_generate", (0, 1)), (4, "actor_update", (0, 1)),
    ]  # fmt: skip
    assert all("/rollout_generate/" in one.path for one in report.inputs)


def test_folders_of_one_role_are_captures_as_any(tmp_path: Path) -> None:
    _role(tmp_path / "runs" / "1" / "actor_update", 1)
    _role(tmp_path / "runs" / "2" / "actor_update", 2)
    assert _analyzed(tmp_path, tmp_path / "runs").measures.rows(RoleTime) == ()


@pytest.mark.parametrize(
    "names",
    [
        ("generate_sequences", "compute_ref_log_prob", "update_actor"),
        ("ActorRolloutHybrid.generate_sequences", "Reference.compute_log_prob", "ActorHybridWorkerBase.update"),
    ],
    ids=["verl", "MindSpeed-RL"],
)
def test_ranges_tell_roles_of_one_capture(tmp_path: Path, names: tuple[str, str, str]) -> None:
    job = generate(tmp_path / "job", Job(ranks=2, steps=2, layers=2), formats=["kineto"])
    _mark(job, names)
    rows = _analyzed(tmp_path, job).measures.rows(RoleTime)
    steps = sorted({row.step for row in rows if row.step is not None})
    assert len(steps) == 2
    for step in steps:
        own = [row for row in rows if row.step == step]
        assert [(row.role, row.bounds) for row in own] == [("rollout", True), ("actor", False), ("reference", False)]
        assert [round(row.share, 2) for row in own] == [0.53, 0.26, 0.21]
        assert all(row.source == "ranges" and row.ranks == (0, 1) for row in own)
        assert own[0].device_ns > 0


def _mark(job: Path, names: tuple[str, str, str]) -> None:
    """Three ranges behind each other over each step, and inside of the first one more of the second, a part of it."""
    for path in job.rglob("*.json"):
        trace = json.loads(path.read_text())
        if "traceEvents" not in trace:
            continue
        events = trace["traceEvents"]
        for one in [one for one in events if str(one.get("name", "")).startswith("ProfilerStep#")]:
            if one.get("cat") != "user_annotation":
                continue
            start, length = float(one["ts"]), float(one["dur"])
            for name, begin, part in (
                (names[0], 0.001, 0.498), (names[1], 0.5, 0.199), (names[2], 0.75, 0.249), (names[1], 0.1, 0.1),
            ):  # fmt: skip
                events.append({**one, "name": name, "ts": start + begin * length, "dur": part * length})
        path.write_text(json.dumps(trace))


def test_ranges_of_other_jobs_are_no_roles(tmp_path: Path) -> None:
    job = generate(tmp_path / "job", Job(ranks=1, steps=1, layers=1), formats=["kineto"])
    _mark(job, ("forward", "backward", "optimizer"))
    assert _analyzed(tmp_path, job).measures.rows(RoleTime) == ()


@pytest.mark.parametrize("name", ["actor_rollout_ref", "e2e", "forward", "ProfilerStep#3", "aten::mm", "node0"])
def test_other_names_are_no_role(name: str) -> None:
    assert role_of(name) is None
