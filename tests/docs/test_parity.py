"""The page of parity: every row has a proof that is there, or says what lacks and why."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from hermes.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "parity.md").read_text("utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| feature", "| file |"))
]
_TEST = re.compile(r"`(tests/[\w/]+\.py)`")
_COMMAND = re.compile(r"`hermes (\w+)")
_LEAST_WORDS = 6


def test_every_row_has_a_state() -> None:
    assert {len(row) for row in ROWS} == {3}
    assert {state for _, state, _ in ROWS} <= {"yes", "partly", "no"}


def test_the_parts_have_as_many_rows_as_the_peers_have_features() -> None:
    parts = re.split(r"^## ", PAGE, flags=re.M)[1:]
    counts = Counter({part[:3]: sum(line.startswith("|") for line in part.splitlines()) - 2 for part in parts})
    assert counts == {"(a)": 29, "(c)": 29, "(g)": 24, "(h)": 16, "(i)": 41}


def test_every_test_and_every_command_that_a_row_names_is_there() -> None:
    missing = [path for path in _TEST.findall(PAGE) if not (ROOT / path).is_file()]
    assert missing == []
    assert {name for name in _COMMAND.findall(PAGE)} - set(app.commands) == set()


@pytest.mark.parametrize("row", [row for row in ROWS if row[1] == "yes"], ids=lambda row: row[0][:40])
def test_a_row_that_is_yes_has_a_test_or_a_command_beside_it(row: tuple[str, ...]) -> None:
    assert _TEST.search(row[2]) or _COMMAND.search(row[2])


@pytest.mark.parametrize("row", [row for row in ROWS if row[1] != "yes"], ids=lambda row: row[0][:40])
def test_a_row_that_is_not_yes_says_why(row: tuple[str, ...]) -> None:
    assert len(row[2].split()) >= _LEAST_WORDS
