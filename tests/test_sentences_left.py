"""Checks that packages whose sentences became messages write no new sentence in code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from sentences_left import left, sentences

RULES = "profiles/rules"


@pytest.mark.parametrize(
    "room",
    ["jobs", "migrate", "model", "precision", "store", "web", "profiles/advise", "profiles/compare", "profiles/engines",
     "profiles/load.py", "profiles/measure", "profiles/refuse_empty_input.py", "profiles/select_steps.py",
     "profiles/pipeline", "profiles/sql_query.py", "profiles/read", "profiles/timeline.py", "profiles/tree",
     "profiles/whatif", f"{RULES}/code",
     f"{RULES}/communication/com001_exposed_communication.py", f"{RULES}/communication/com006_contention.py",
     f"{RULES}/communication/com008_slow_transfers/stalled_transfers.py", f"{RULES}/compute/cmp014_padding.py",
     f"{RULES}/compute/cmp033_decoded_anew.py", f"{RULES}/compute/cmp034_costly_form.py", f"{RULES}/environment",
     f"{RULES}/host", f"{RULES}/input", f"{RULES}/memory/mem002_allocation_in_step.py",
     f"{RULES}/memory/mem004_leak.py", f"{RULES}/memory/mem007_out_of_memory.py", f"{RULES}/processor"],
)  # fmt: skip
def test_a_converted_room_has_no_sentence_left(room: str) -> None:
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
