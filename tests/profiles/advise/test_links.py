"""Rules point to cases that exist, and each case is pointed to, but for a short list that says why not."""

from __future__ import annotations

import pytest
from tests.each import each

from hermes.cli.app import app
from hermes.knowledge.cases import case, cases
from hermes.profiles.advise.matching_cases import rules_of, uncovered
from hermes.profiles.rules import ALL
from hermes.profiles.rules.rule import Rule

NO_RULE = {
    "MEM-09": "it takes memory and no time: there is no loss of the step to find",
    "MEM-11": "it takes memory and no time: there is no loss of the step to find",
    "CMP-16": "what a mask holds is not recorded: a causal one looks like any other",
    "CMP-45": "which pairs a product could take the place of is not recorded",
    "CPU-49": "which parameters an optimizer has is not recorded",
    **dict.fromkeys(
        ("CPU-37", "CPU-40", "CPU-41", "CPU-42", "ENV-03", "ENV-09", "MEM-12"),
        "what holds the host between recorded calls is in no profile: it is the leaf that was not recorded",
    ),
    "ENV-11": "it happens once, before the first step, where no step is",
}
"""Cases that no rule finds, and why."""


@each(ALL, lambda rule: rule.code)
def test_a_rule_points_to_cases_that_exist(rule: Rule) -> None:
    assert [identity for identity in rule.cases if case(identity) is None] == []


def test_each_case_is_found_by_a_rule_or_says_why_not() -> None:
    assert {one.id for one in uncovered(ALL)} == set(NO_RULE)
    assert all(NO_RULE.values())


@pytest.mark.parametrize("layer", ["io", "cpu", "compute", "communication", "memory", "parallelism", "environment"])
def test_some_rule_of_any_layer_points_to_each_layer_of_cases(layer: str) -> None:
    assert any(rules_of(one, ALL) for one in cases() if one.layer == layer)


def test_explain_shows_the_causes_that_a_rule_may_point_to(capsys: pytest.CaptureFixture[str]) -> None:
    app(["explain", "cpu002"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "## Known causes" in said
    assert "CPU-01  Operators are compiled while training" in said


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    app(["rules"], standalone_mode=False)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [rule.code for rule in ALL]
