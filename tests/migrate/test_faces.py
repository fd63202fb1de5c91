"""Text, JSON, SARIF and HTML of a scan: complete, escaped, and fit for the tools that read them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hermes.migrate import api
from hermes.migrate.model import Style, Target, TreeScan
from hermes.migrate.rules import RULES

EVIL = 'import torch\nx = torch.ones(2).cuda()  # <script>alert(1)</script>\ndevice = "cuda"  # </pre>\nimport apex\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "<b>&tree"
    folder.mkdir()
    (folder / "a <i>.py").write_text(EVIL)
    (folder / "bad.py").write_text("def f(:\n")
    return folder


@pytest.fixture
def found(root: Path) -> TreeScan:
    return api.scan(root, Target())


def test_the_answer_stands_first(found: TreeScan) -> None:
    lines = list(api.scan_text(found, all_places=True))
    assert lines[1].startswith("Can it move to Ascend A2 with torch 2.13.0?  yes, with work by hand")
    assert any("bad.py: cannot be parsed" in line for line in lines)


def test_json_holds_every_place_and_is_ascii(found: TreeScan) -> None:
    text = api.dumps(api.scan_document(found))
    assert text.isascii()
    document = json.loads(text)
    assert sum(len(file["places"]) for file in document["files"]) == len(found.places)
    assert document["answer"]["verdict"] == "yes, with work by hand"


def test_sarif_names_rule_place_and_level_of_each_result(found: TreeScan) -> None:
    (run,) = json.loads(api.dumps(api.sarif(found)))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(found.places)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        assert "<" not in place["artifactLocation"]["uri"]
        assert result["level"] in ("error", "warning", "note", "none")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_escaped_whole_and_loads_nothing(root: Path, found: TreeScan) -> None:
    text = api.page_of_scan(found, api.convert(root, Target(), Style.NATIVE))
    tags = _Tags()
    tags.feed(text)
    assert not tags.open
    assert not {"script", "img", "link", "iframe", "i", "b"} & set(tags.tags)
    assert "default-src 'none'" in text
    assert "&lt;script&gt;" in text
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"(src|href)=", text)


def test_every_rule_says_what_why_and_what_to_do() -> None:
    for code, rule in RULES.items():
        assert re.fullmatch(r"[a-z0-9-]+", code)
        assert rule.title
        assert code == "library" or (rule.why and rule.todo)


def test_every_rule_that_is_measured_later_is_a_rule_of_hermes() -> None:
    pages = {path.stem for path in (Path(__file__).resolve().parents[2] / "docs" / "rules").glob("*.md")}
    assert {rule.later for rule in RULES.values() if rule.later} <= pages
