"""A rule is trusted only with evidence that is written down."""

from __future__ import annotations

import re
from pathlib import Path

from tests.each import each

from hermes.profiles.rules import ALL
from hermes.profiles.rules.rule import Rule

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evidence" / "trust.md"
ROWS = {
    row[0]: row[1:]
    for line in PAGE.read_text("utf-8").splitlines()
    if re.match(r"\| [A-Z]+\d{3} \|", line)
    for row in ([cell.strip() for cell in line.strip("|").split("|")],)
}


@each(ALL, lambda rule: str(rule.code))
def test_a_rule_is_trusted_as_far_as_the_page_of_evidence_says_and_a_new_one_is_a_preview(rule: Rule) -> None:
    assert ROWS.get(rule.code, ["preview"])[0] == rule.state


@each([one for one in ALL if one.state == "stable"], lambda rule: str(rule.code))
def test_a_stable_rule_has_two_captures_or_one_and_a_case_or_a_tool_and_is_silent_elsewhere(rule: Rule) -> None:
    _, captures, silent, why = ROWS[rule.code]
    assert int(silent) >= 3
    direct = why.startswith("direct evidence: ")
    assert (
        captures.count("`") >= 4
        or (captures.count("`") == 2 and why.startswith("a capture and "))
        or "tool" in why
        or direct
    )


def test_no_row_is_left_of_a_rule_that_is_gone() -> None:
    assert ROWS.keys() <= {rule.code for rule in ALL}
