"""A rule is trusted only with evidence that is written down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.each import each

from hermes.model.finding import Loss
from hermes.model.job import Job, JobMeasures
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules import ALL
from hermes.profiles.rules.rule import Finder, Rule
from hermes.profiles.rules.run_rules import find_all

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evidence" / "trust.md"
ROWS = {
    (row[0], row[1]): row[2:]
    for line in PAGE.read_text("utf-8").splitlines()
    if re.match(r"\| [A-Z]+\d{3} \|", line)
    for row in ([cell.strip() for cell in line.strip("|").split("|")],)
}


FINDERS = [finder for rule in ALL for finder in rule.finders]


def said(finder: Finder) -> str:
    return f"{finder.code}-{finder.name}"


@each(FINDERS, said)
def test_a_finder_is_trusted_as_far_as_the_page_of_evidence_says_and_a_new_one_is_a_preview(finder: Finder) -> None:
    assert ROWS.get((finder.code, finder.name), ["preview"])[0] == finder.state


@each(FINDERS, said)
def test_a_finder_has_a_row_that_says_on_what_it_rests(finder: Finder) -> None:
    _, rests, *_ = ROWS[finder.code, finder.name]
    assert {*filter(None, rests.split(", "))} <= {"capture", "case", "tool", "programs"}
    assert ("case" in rests) is bool(finder.cases)


def test_rules_of_the_lab_run_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {rule.code for rule in ALL if rule.lab} == {"CMP018", "CPU014"}
    assert all(state == "preview" for rule in ALL if rule.lab for state in rule.states)
    ran: list[str] = []

    def find(rule: Rule, _measures: JobMeasures) -> Iterator[Loss]:
        ran.append(rule.code)
        return iter(())

    monkeypatch.setattr(Rule, "find", find)
    find_all(JobMeasures(Job(steps=JobSteps([])), []))
    assert not {"CMP018", "CPU014"} & {*ran}
    find_all(JobMeasures(Job(steps=JobSteps([])), []), lab=True)
    assert {"CMP018", "CPU014"} <= {*ran}


@each([one for one in FINDERS if one.state == "stable"], said)
def test_a_stable_finder_has_two_captures_or_one_and_a_case_or_a_tool_and_is_silent_elsewhere(finder: Finder) -> None:
    _, _, captures, silent, why = ROWS[finder.code, finder.name]
    assert int(silent) >= 3
    direct = why.startswith("direct evidence: ")
    assert (
        captures.count("`") >= 4
        or (captures.count("`") == 2 and why.startswith("a capture and "))
        or "tool" in why
        or direct
    )


def test_no_row_is_left_of_a_finder_that_is_gone() -> None:
    assert ROWS.keys() <= {(one.code, one.name) for one in FINDERS}
