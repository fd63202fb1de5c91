"""Checks that packages write no sentence in code: the catalogue has them all."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from sentences_left import left, sentences


@pytest.mark.parametrize(
    "room",
    ["jobs", "knowledge/costly_forms.py", "knowledge/fusible_operators.py", "knowledge/host_settings.py",
     "knowledge/vendor_cures.py", "migrate", "model", "precision", "profiles", "store", "web"],
)  # fmt: skip
def test_a_room_has_no_sentence_left(room: str) -> None:
    assert [*left(room)] == []


def test_sentences_are_told_from_messages_and_names() -> None:
    code = """
Loss(message=f"{share:.0%} of the step", code="COM001")
Loss(message=exposed_share(share=0.1), method=HIDDEN)
Action(title="Wait" if late else WAIT, do="", source="a page")
raise InputError("nothing is here", hint=SAY_WHERE)
raise ValueError("for programmers")
"""
    assert [*sentences(ast.parse(code))] == [2, 4, 5]
