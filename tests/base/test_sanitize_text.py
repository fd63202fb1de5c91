"""Names from outside are one harmless line, one cell of text, one word of a shell."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.sanitize_text import clean_cell, clean_lines, harmless_line, shell_command

HOSTILE = [
    "\x1b[2J\x1b]0;t\x07",
    "a\nhermes: forged",
    "a\r\x0bb",
    "\u202egnp.exe",
    "a\x9b31m",
    "'; $(id) `id` \"",
    "\ud800",
]


@given(st.text())
def test_a_name_is_one_printable_line(text: str) -> None:
    assert harmless_line(text).isprintable() or not any(
        one in harmless_line(text) for one in "\n\r\x1b\x9b\u202e\u2028"
    )
    assert len(harmless_line(text).splitlines()) <= 1


@pytest.mark.parametrize("text", HOSTILE)
def test_several_lines_stay_and_nothing_else_steers(text: str) -> None:
    assert clean_lines(text).count("\n") == text.count("\n")
    assert not any(one in clean_lines(text) for one in "\r\x1b\x07\x9b\u202e\ud800\x0b")


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", "-cmd|' /C calc'!A0"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert clean_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-1.5", "+3", "1e-3", "mm", "", "a=b", "-inf"])
def test_a_number_or_a_name_stays_what_it_is(text: str) -> None:
    assert clean_cell(text) == text


@pytest.mark.live
@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw))
def test_a_shell_reads_the_very_word_back_and_sees_one_line(raw: bytes) -> None:
    told = shell_command("printf", "%s", raw.decode("utf-8", "surrogateescape"))
    assert told.isprintable()
    done = subprocess.run(["/bin/bash", "-c", told], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout == raw
