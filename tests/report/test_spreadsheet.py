"""The report as a workbook, read back as a spreadsheet reads it."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.shared_jobs import FOUR, Jobs

from hermes.model.report import Report
from hermes.model.structure_measures import RankMatrix
from hermes.report.report_json import document
from hermes.report.spreadsheet import spreadsheet
from hermes_testing import Fault

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets(body: bytes) -> dict[str, list[list[str]]]:
    """The cells of each sheet as texts, in the order of the sheets."""
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        assert file.testzip() is None
        names = [
            one.get("name", "") for one in ElementTree.fromstring(file.read("xl/workbook.xml")).iter(f"{_MAIN}sheet")
        ]
        found = {}
        for at, name in enumerate(names, 1):
            rows = ElementTree.fromstring(file.read(f"xl/worksheets/sheet{at}.xml")).iter(f"{_MAIN}row")
            found[name] = [["".join(cell.itertext()) for cell in row] for row in rows]
    return found


@pytest.fixture(scope="module")
def generated(jobs: Jobs) -> Report:
    return jobs.report(replace(FOUR, faults=(Fault(kind="slow_link"),)), "ascend-db")


@pytest.fixture(scope="module")
def book(generated: Report) -> dict[str, list[list[str]]]:
    return sheets(spreadsheet(generated))


def test_findings_come_first_with_their_cost_and_what_to_do(
    book: dict[str, list[list[str]]], generated: Report
) -> None:
    assert list(book)[:2] == ["Findings", "Actions"]
    head, *rows = book["Findings"]
    assert head[:3] == ["Code", "Finding", "Cost per step (ms)"]
    assert [(row[0], float(row[2])) for row in rows] == [(one.code, one.cost_ns / 1e6) for one in generated.findings]
    assert all(row[head.index("Do")] for row, one in zip(rows, generated.findings, strict=True) if one.actions)


def test_every_list_of_the_json_report_has_its_rows(book: dict[str, list[list[str]]], generated: Report) -> None:
    made = document(generated)
    for title, key in (("Steps", "steps"), ("Clocks", "clocks"), ("Streams", "streams")):
        assert len(book[title]) - 1 == len(made[key])  # type: ignore[arg-type]
    head, *rows = book["Steps"]
    windows = [float(row[head.index("Window (ms)")]) for row in rows]
    assert windows == [one["window_ms"] for one in made["steps"]]  # type: ignore[attr-defined]


def test_moments_keep_all_their_digits(book: dict[str, list[list[str]]], generated: Report) -> None:
    head, *rows = book["Steps"]
    assert [row[head.index("Start (ns)")] for row in rows] == [str(one.start_ns) for one in generated.steps]


def test_ranks_by_measure_are_a_table_of_numbers(book: dict[str, list[list[str]]], generated: Report) -> None:
    matrix = generated.rows(RankMatrix).only
    assert matrix is not None
    head, *rows = book["All measures of all ranks"]
    assert head[:3] == ["First rank", "Last rank", "window (ms)"]
    assert [row[0] for row in rows] == [str(row.first_rank) for row in matrix.rows]
    assert all(float(row[2]) > 0 for row in rows)


def test_names_of_sheets_are_as_a_spreadsheet_allows_them(book: dict[str, list[list[str]]]) -> None:
    assert all(0 < len(name) <= 31 and not re.search(r"[\[\]:*?/\\']", name) for name in book)
    assert len({name.lower() for name in book}) == len(book)


def test_it_is_in_chinese_too(generated: Report) -> None:
    found = sheets(spreadsheet(generated, "zh"))
    assert list(found)[:3] == ["发现", "对策", "步"]
    assert found["发现"][0][:3] == ["代码", "发现", "每步损失 (ms)"]


def test_a_name_of_a_profile_is_text_and_no_formula(generated: Report) -> None:
    hostile = replace(generated.findings[0], message="=1+1\x07")
    body = spreadsheet(replace(generated, findings=(hostile,)))
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        text = file.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in text
    assert ">=1+1" in text
    assert "\x07" not in text
