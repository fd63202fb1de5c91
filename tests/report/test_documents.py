"""A document of any wing on each face: nothing is lost, nothing acts, and both languages say it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console
from tests.report.documents import document
from tests.report.test_spreadsheet import sheets

from hermes.base.say import say
from hermes.model.document import CodeText, Document
from hermes.report.document_html import document_html
from hermes.report.document_json import document_json, document_values
from hermes.report.document_sheet import document_sheets
from hermes.report.document_text import render_document
from hermes.report.localized_texts import teller

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e]]>{{7*7}}"


def text(made: Document, language: str = "en", width: int = 100, *, whole: bool = False) -> str:
    drawn = io.StringIO()
    render_document(made, Console(file=drawn, width=width), tell=teller(language), whole=whole)
    return drawn.getvalue()


def test_json_begins_with_the_envelope_and_then_has_the_documents_own() -> None:
    values = json.loads(document_json(document()))
    assert list(values) == [
        "schema", "tool", "inputs", "coverage", "findings", "answer", "verdict", "counts", "rows", "rows_total",
        "modules", "diff",
    ]  # fmt: skip
    assert values["inputs"][0] == {"path": "/runs/golden", "role": "golden", "kind": "recording"}
    assert values["rows"][1] == {
        "rank": 1, "operator": "model.layers.0.attention", "spent_ms": 1.234567, "apart": 0.5, "known": False,
        "state": None,
    }  # fmt: skip
    assert values["rows_total"] == 10
    assert values["findings"][0]["where"] == {"ranks": [0, 1, 2, 3], "steps": [2], "lines": ["model.py:12"]}
    assert values["findings"][1]["confidence"] is None


def test_two_parts_of_one_name_are_refused() -> None:
    made = document()
    twice = Document(schema="x/1", inputs=(), answer="", parts=(*made.parts, CodeText(key="rows", title="", text="")))
    with pytest.raises(ValueError, match="rows"):
        document_values(twice)


def test_the_terminal_says_what_is_missing_the_answer_findings_and_parts() -> None:
    said = text(document())
    order = [
        "Coverage: ", "rank 3 was not recorded; lost: its operators", "The runs part at", "golden: /runs/golden",
        "1. model.layers.0.attention gives other numbers", "confidence high (0.90)", "ranks 0 to 3",
        "distance: 0.25 (limit 0.001)", "Do: Cast to float32", "Not certain: the inputs were not recorded", "Preview",
        "PRE002", "Operators  7 more", "1.23 ms", "Modules", "Change", "+x.npu()",
    ]  # fmt: skip
    places = [said.find(one) for one in order]
    assert -1 not in places, [one for one, place in zip(order, places, strict=True) if place < 0]
    assert places == sorted(places)


def test_a_long_table_is_shown_around_its_marked_row_and_says_how_much_is_left() -> None:
    made = document(rows=500)
    assert "495 more" in text(made)
    assert len(text(made, whole=True).splitlines()) > 500


def test_a_code_is_never_shortened_and_no_finding_says_the_answer_again() -> None:
    made = document()
    (first, *others), code = made.findings, "inserted_operator_of_a_long_name"
    first = replace(first, code=code)
    assert code in text(replace(made, findings=(first, *others)), width=60)
    said = text(replace(made, answer=first.message, findings=(first, *others)))
    assert (said.count(say(first.message)), said.count(code)) == (1, 1)
    assert f"1. {code}" in said


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = [line for line in text(document(), width=width).splitlines() if len(line) > width]
    assert wide == []


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [str(found["id"])] if "id" in found else []
        self.links += [str(found["href"])] if tag == "a" else []
        assert not [name for name in found if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_loads_nothing_and_its_links_have_targets(language: str) -> None:
    page = Page(document_html(document(), language))
    assert len(page.ids) == len(set(page.ids))
    assert [one for one in page.links if one.removeprefix("#") not in page.ids] == []
    assert page.tags.count("script") == 2
    assert not {"img", "iframe", "object"} & {*page.tags}


def test_the_page_has_all_parts() -> None:
    page = document_html(document())
    for one in ("Cast to float32", "the inputs were not recorded", "1.23 ms", "rank 3 was not recorded", "PRE002"):
        assert one in page
    assert 'class="plus"' in page
    assert "7 more rows." in page


def test_a_diff_keeps_its_lines() -> None:
    assert '<span class="minus">-x.cuda()</span>\n<span class="plus">+x.npu()' in document_html(document())


def test_hostile_names_stay_text_on_each_face() -> None:
    made = document(name=HOSTILE)
    page = document_html(made)
    assert "<script>alert" not in page
    assert "\u202e" not in page + text(made)
    assert "\x1b[31m" not in text(made)
    assert "\x1b" not in document_json(made)
    assert json.loads(document_json(made))["inputs"][1]["path"] == HOSTILE
    assert len(sheets(document_sheets(made))) == 3


def test_a_workbook_has_a_sheet_for_the_answer_the_findings_and_each_table() -> None:
    book = sheets(document_sheets(document()))
    assert list(book) == ["Answer", "Findings", "Operators"]
    assert book["Findings"][1][:2] == ["PRE001", "model.layers.0.attention gives other numbers"]
    assert book["Operators"][0][:3] == ["Ranks", "Operator", "Time (ns)"]
    assert book["Operators"][2][2] == "1234567"


def test_in_chinese_the_faces_own_words_are_chinese() -> None:
    made = document()
    assert "发现" in text(made, "zh")
    assert "置信度：高（0.90）" in text(made, "zh")
    page = re.sub(r"<script.*?</script>|<style.*?</style>", "", document_html(made, "zh"), flags=re.S)
    assert not re.findall(r">\s*(Evidence|Confidence|Coverage|Threshold|Gain per step)\s*<", page)
