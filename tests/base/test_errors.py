"""Errors say what, where, what is lost and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.errors import (
    Diagnostic,
    HermesError,
    InputChangedError,
    InputError,
    QueryError,
    TraceFormatError,
)


def test_an_error_reads_as_one_sentence_of_all_its_parts() -> None:
    error = HermesError("it is cut", where="a.json, line 3", lost="the rest", hint="profile again")
    assert str(error) == "a.json, line 3: it is cut; lost: the rest; what to do: profile again"


def test_parts_that_are_not_known_are_left_out() -> None:
    assert str(HermesError("it is cut")) == "it is cut"


def test_a_format_error_names_the_file_and_the_place_in_it() -> None:
    error = TraceFormatError(Path("a/b.json"), "no events", place="offset 12", lost="all", hint="look")
    assert (error.where, error.path, error.lost, error.hint) == ("a/b.json, offset 12", Path("a/b.json"), "all", "look")


@pytest.mark.parametrize("kind", [InputError, InputChangedError, QueryError, TraceFormatError])
def test_every_error_is_one_that_the_command_line_shows(kind: type[HermesError]) -> None:
    assert issubclass(kind, HermesError)


def test_equal_diagnostics_are_one() -> None:
    one, two = (Diagnostic(level="info", message="m", where="w") for _ in range(2))
    assert len({one, two}) == 1
