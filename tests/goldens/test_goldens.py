"""What Hermes says of each kept capture and of some modelled jobs is what a reviewer has read last.

`make goldens` writes the texts anew. Read their diff before you commit it.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.goldens.golden_text import golden_text
from tests.profiles.pipeline.test_invariants import REAL
from tests.report.test_first_screen import drawn
from tests.shared_jobs import FOUR, TWO, Jobs
from tests.skips import profiles

from hermes.model.report import Report
from hermes.report.first_screen import MOST_LINES
from hermes_testing import Fault, FaultKind, Format, Job

HERE = Path(__file__).parent


def _with(job: Job, *kinds: FaultKind, hosts: int = 1) -> Job:
    return replace(job, hosts=hosts, faults=tuple(Fault(kind=kind) for kind in kinds))


DEMO = Job(faults=(Fault(kind="recompilation", ranks=(5,)), Fault(kind="gc_pause", ranks=(5,))))
"""The job of `make demo`."""
JOBS: dict[str, tuple[Job, Format]] = {
    "demo": (DEMO, "ascend-text"),
    "four": (FOUR, "ascend-db"),
    "four_kineto": (FOUR, "kineto"),
    "four_data_wait": (_with(FOUR, "data_wait"), "kineto"),
    "four_slow_link": (_with(FOUR, "slow_link", hosts=2), "ascend-db"),
    "four_slow_rank_host": (_with(FOUR, "slow_rank_host"), "ascend-db"),
    "two_gc_pause": (_with(TWO, "gc_pause"), "kineto"),
}
CAPTURES = {name.rpartition("/")[2].split(".json")[0].removesuffix(".tar.gz"): name for name in REAL}


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether the run writes the texts anew."""
    return bool(request.config.getoption("update_golden"))


def _compare(path: Path, report: Report, *, update: bool) -> None:
    assert len(drawn(report)) <= MOST_LINES
    made = golden_text(path.stem, report)
    if update:
        path.write_text(made, "utf-8")
    kept = path.read_text("utf-8") if path.exists() else ""
    changes = "\n".join(difflib.unified_diff(kept.splitlines(), made.splitlines(), "kept", "made", lineterm="", n=1))
    if changes:
        pytest.fail(f"{path.name} changed; if that is right: make goldens\n{changes}", pytrace=False)


@pytest.mark.parametrize("name", CAPTURES)
def test_what_is_said_of_a_capture_is_what_was_reviewed(name: str, jobs: Jobs, update: bool) -> None:
    _compare(HERE / "captures" / f"{name}.txt", jobs.real_report(CAPTURES[name]), update=update)


@pytest.mark.parametrize("name", JOBS)
def test_what_is_said_of_a_modelled_job_is_what_was_reviewed(name: str, jobs: Jobs, update: bool) -> None:
    _compare(HERE / "jobs" / f"{name}.txt", jobs.report(*JOBS[name]), update=update)


def test_each_text_belongs_to_a_capture_or_a_job(update: bool) -> None:
    named = {*(f"captures/{name}" for name in CAPTURES), *(f"jobs/{name}" for name in JOBS)}
    kept = {f"{path.parent.name}/{path.stem}": path for path in HERE.rglob("*.txt")}
    for name in kept.keys() - named if update else ():
        kept.pop(name).unlink()
    assert kept.keys() == named


def test_a_change_is_told_as_a_diff(tmp_path: Path, jobs: Jobs) -> None:
    report = jobs.report(*JOBS["two_gc_pause"])
    path = tmp_path / "two_gc_pause.txt"
    _compare(path, report, update=True)
    _compare(path, report, update=False)
    (first, *others) = report.findings
    with pytest.raises(pytest.fail.Exception) as told:
        _compare(path, replace(report, findings=(replace(first, cost_ns=7), *others)), update=False)
    gone, come = (
        [line for line in str(told.value).splitlines() if line.startswith(sign) and first.code in line]
        for sign in ("-", "+")
    )
    assert (len(gone), len(come)) == (1, 1)
    assert come[0].split()[1] == "7"


def test_each_capture_beside_the_repository_has_a_text() -> None:
    there = [*profiles().glob("ascend/*"), *profiles().glob("kineto/*")]
    assert sorted(path.relative_to(profiles()).as_posix() for path in there) == sorted(
        name if (profiles() / name).exists() else f"{name}/trace_view.json" for name in CAPTURES.values()
    )
