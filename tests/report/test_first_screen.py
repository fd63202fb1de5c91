"""The first screen of a report: at most 40 lines, each within the terminal, with the answer and where the rest is."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.shared_jobs import Jobs

from hermes.base.errors import Diagnostic
from hermes.base.say import say
from hermes.model.report import Report
from hermes.report.first_screen import MOST_LINES, render_first_screen
from hermes.report.localized_texts import teller
from hermes.report.plan_words import gain_words, who_words
from hermes_testing import Fault, Job


def drawn(report: Report, width: int = 80, language: str = "en", **more: object) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    render_first_screen(report, console, tell=teller(language), **more)  # type: ignore[arg-type]
    return file.getvalue().splitlines()


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", ["real", "many", "hostile", "unmeasured", "empty"])
def test_it_is_one_screen_at_every_width(name: str, width: int, language: str, request: pytest.FixtureRequest) -> None:
    lines = drawn(request.getfixturevalue(name), width, language, paths=["in"])
    assert 0 < len(lines) <= MOST_LINES
    assert max(map(cell_len, lines)) <= width


def test_what_is_missing_comes_first_then_the_answer_and_the_way_to_the_rest_last(real: Report) -> None:
    lines = drawn(real, paths=["in"])
    assert lines[0].startswith("Coverage: only ranks 0 and 1 of 8")
    assert " ".join(lines[1:4]).startswith(say(real.verdict.message)[:150])
    assert lines[-1] == "All of it: hermes analyze in --full"
    assert drawn(real, written=["out/report.html"])[-1] == "All of it: out/report.html"


def test_three_actions_are_shown_with_range_and_place(jobs: Jobs) -> None:
    faults = tuple(Fault(kind=kind, ranks=(1,)) for kind in ("gc_pause", "recompilation"))
    report = jobs.report(Job(ranks=2, steps=2, layers=1, faults=faults), "ascend-text")
    lines = drawn(report)
    at = next(number for number, line in enumerate(lines) if line.startswith("What to do"))
    assert gain_words(report.plan.actions[0]) in lines[at + 1]
    assert report.plan.actions[0].codes[0] in " ".join(lines[at + 2 : at + 4])
    assert sum(line[2:4] in ("1.", "2.", "3.", "4.") for line in lines[at:]) == min(len(report.plan.actions), 3)


def test_one_line_says_what_was_not_recorded_and_how_much_more_is_missing(real: Report) -> None:
    (line,) = [line for line in drawn(real) if line.startswith("Coverage: ")]
    assert line.endswith("more)")
    note = Diagnostic(level="degraded", message="a file is torn", where="f", lost="steps")
    broken = replace(real, coverage=replace(real.coverage, missing=(), files=()), diagnostics=(note,))
    assert drawn(broken)[0] == "Coverage: a file is torn"


def test_what_a_sentence_on_missing_data_says_is_not_counted_again_as_a_note(real: Report) -> None:
    gap = "kernel_details.csv is missing: lost operator types"
    note = Diagnostic(level="degraded", message="kernel_details.csv is missing", where="f", lost="operator types")
    broken = replace(real, coverage=replace(real.coverage, missing=(gap,), files=()), diagnostics=(note,))
    assert drawn(broken)[0] == f"Coverage: {gap}"


def test_a_state_of_the_device_with_one_leaf_is_one_line(jobs: Jobs) -> None:
    lines = drawn(jobs.report(Job(ranks=2, steps=2, layers=1), "ascend-text"))
    tree = [line[19:].strip() for line in lines if line[9:19].strip().endswith("%")]
    assert "exposed communication, transferring" in tree
    assert "exposed communication" not in tree


def test_a_rank_that_is_at_fault_for_its_own_loss_is_named_once(jobs: Jobs) -> None:
    report = jobs.report(Job(ranks=2, steps=2, layers=1, faults=(Fault(kind="gc_pause", ranks=(1,)),)), "ascend-text")
    one = replace(report.plan.actions[0], ranks=(1,), blames=("rank 1",), lines=())
    assert who_words(one, (0, 1)) == "rank 1"
    assert who_words(replace(one, ranks=(0,)), (0, 1)) == "rank 0, by rank 1"
