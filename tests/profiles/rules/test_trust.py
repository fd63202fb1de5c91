"""A rule is trusted only with evidence that is written down."""

from __future__ import annotations

import re
from pathlib import Path

from tests.each import each

from hermes.profiles.rules import ALL
from hermes.profiles.rules.rule import Finder

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


@each([one for one in FINDERS if one.state == "stable"], said)
def test_a_stable_finder_has_two_captures_or_one_and_a_case_or_a_tool_and_is_silent_elsewhere(finder: Finder) -> None:
    _, captures, silent, why = ROWS[finder.code, finder.name]
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
