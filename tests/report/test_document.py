"""The JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.model.report import Report
from hermes.profiles.measure import load_all
from hermes.report.report_json import document, to_json

# What measures declare is part of the form, whoever imported them first.
load_all()


def _load(report: Report) -> dict[str, object]:
    def never(word: str) -> object:
        raise AssertionError(f"{word} is no JSON")

    loaded = json.loads(to_json(report), parse_constant=never)
    assert isinstance(loaded, dict)
    return loaded


def _first(made: dict[str, object], block: str) -> dict[str, object]:
    rows = made[block]
    assert isinstance(rows, list)
    row = rows[0]
    assert isinstance(row, dict)
    return row


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def test_the_document_names_its_schema_and_tool(real: Report) -> None:
    made = document(real)
    assert (made["schema"], made["tool"]) == ("hermes.report/1", {"name": "hermes", "version": "0.1.0"})


def test_every_block_of_the_schema_is_there_even_when_nothing_was_read(empty: Report) -> None:
    assert {
        "schema",
        "tool",
        "title",
        "verdict",
        "inputs",
        "code",
        "coverage",
        "steps",
        "totals",
        "step_trace_time",
        "critical_path",
        "critical_path_rivals",
        "critical_path_stretches",
        "overlap",
        "input",
        "host",
        "memory",
        "compute",
        "plan",
        "findings",
        "streams",
        "clocks",
        "waits",
        "rank_waits",
        "links",
        "top",
        "communication",
        "pipeline",
        "balance",
        "rank_matrix",
        "diagnostics",
    } <= _load(empty).keys()


def test_milliseconds_give_back_the_nanosecond(real: Report) -> None:
    first = _first(_load(real), "steps")
    assert isinstance(first["window_ms"], float)
    assert round(first["window_ms"] * 1e6) == 129_862_875
    assert first["compute_ms"] == 8.86824


@given(st.integers(min_value=0, max_value=10**15))
def test_no_time_of_up_to_eleven_days_loses_its_nanosecond(ns: int) -> None:
    assert round(json.loads(json.dumps(ns / 1_000_000)) * 1e6) == ns


def test_a_step_holds_all_fields_of_the_schema(real: Report) -> None:
    first = _first(document(real), "steps")
    assert set(first) == {
        "rank",
        "step",
        "window_kind",
        "start_ns",
        "window_ms",
        "compute_ms",
        "comm_ms",
        "exposed_comm_ms",
        "overlapped_comm_ms",
        "copy_ms",
        "copy_exposed_ms",
        "free_ms",
        "preparing_ms",
        "host_ms",
        "mfu",
    }


def test_what_was_not_measured_is_null_and_not_zero(unmeasured: Report) -> None:
    step = _first(_load(unmeasured), "steps")
    assert step["compute_ms"] is None
    assert step["free_ms"] is None
    assert step["window_ms"] == 47.1514


def test_ascends_definition_is_in_microseconds(real: Report) -> None:
    block = _load(real)["step_trace_time"]
    assert isinstance(block, dict)
    assert block["unit"] == "us"
    assert [row["stage_us"] for row in block["rows"][:2]] == [129_862.875, 129_862.75]


def test_a_finding_holds_its_gain_evidence_and_actions(real: Report) -> None:
    first = _first(_load(real), "findings")
    assert first["cost_ms"] == 86.470907
    assert first["gain"] == {
        "low": 60.0,
        "high": 84.0,
        "unit": "ms per step",
        "basis": "bound",
        "method": {"text": "median over ranks of the wait, minus the transfer time"},
    }
    assert set(_first(first, "evidence")) == {"what", "value", "unit", "threshold", "where", "at"}
    assert set(_first(first, "actions")) == {"title", "do", "verify", "risk", "source", "fit"}


def test_what_is_no_number_is_null(hostile: Report) -> None:
    first = _first(_load(hostile), "findings")
    assert (first["share"], first["confidence"], _first(first, "evidence")["value"]) == (None, None, None)


def test_equal_reports_give_equal_bytes(real: Report) -> None:
    assert to_json(real) == to_json(replace(real))


def test_broken_bytes_in_a_name_still_make_utf8(hostile: Report) -> None:
    to_json(hostile).encode("utf-8")


def test_names_come_back_as_they_were(hostile: Report) -> None:
    assert "user\u202egpj.exe\u2066\u200b" in set(_strings(_load(hostile)))


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\u202e", "\u2066", "\u2028", "\x7f", "\x07"])
def test_the_text_holds_no_character_that_a_terminal_obeys(hostile: Report, character: str) -> None:
    sly = replace(hostile, title=f"a{character}b")
    assert character not in to_json(sly)
    assert _load(sly)["title"] == f"a{character}b"


@pytest.mark.parametrize("kind", ["real", "hostile", "many", "unmeasured", "empty"])
def test_a_report_is_of_the_form_that_the_schema_says(kind: str, request: pytest.FixtureRequest) -> None:
    schema = json.loads((Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(_load(request.getfixturevalue(kind)))
