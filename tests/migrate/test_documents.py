"""The documents of a scan and a conversion, and their SARIF: complete, in two languages, fit for the tools that read them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.migrate.conftest import Scan

from hermes.base import say as saying
from hermes.base.message import Message
from hermes.base.say import say
from hermes.knowledge.confidence import CONFIDENCE
from hermes.migrate import api
from hermes.migrate.document_messages import BY_HABIT, BY_TABLE
from hermes.migrate.documents import scan_document
from hermes.migrate.rules import RULES
from hermes.migrate.scan_model import Style, Sure, Target, TreeScan
from hermes.model.document import CodeText, Table
from hermes.model.leaf import Risk
from hermes.report.findings_json import finding_document
from hermes.report.sarif import sarif

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


def test_the_answer_says_first_what_was_not_checked(found: TreeScan) -> None:
    answer = api.scan_document(found).answer
    assert say(answer) == (
        "1 file was not checked. Can it move to Ascend A2 with torch 2.13.0? yes, with work by hand: less than an hour"
    )
    assert say(answer, "zh") == (
        "1 个文件没有检查。能否迁移到昇腾 A2（torch 2.13.0）？可以，但需要手工修改：不到一小时"
    )
    assert not api.is_clean(found)


def test_a_program_that_convert_settles_is_clean(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    found = api.scan(tmp_path, Target())
    assert api.scan_document(found).facts["verdict"] == "yes"
    assert api.is_clean(found)


def test_each_place_is_a_line_of_a_finding(found: TreeScan) -> None:
    document = api.scan_document(found)
    lines = [line for one in document.findings for line in one.lines]
    assert sorted(lines) == sorted(f"{path}:{place.line}" for path, place in found.places)
    assert {one.about for one in document.findings} <= {Risk.STOPS, Risk.DIFFERS, Risk.SLOW, Risk.NOTE}
    assert [one.about for one in document.findings] == sorted(
        (one.about for one in document.findings), key=[Risk.STOPS, Risk.DIFFERS, Risk.SLOW, Risk.NOTE].index
    )
    assert json.dumps([finding_document(one) for one in document.findings])


def test_the_same_thing_in_two_files_is_one_finding(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import apex\n")
    (one,) = api.scan_document(api.scan(tmp_path, Target())).findings
    assert one.lines == ("a.py:1", "b.py:1")
    assert [say(action.do) for action in one.actions] == ["by hand (minutes)"]


def test_a_page_has_the_diff_of_each_file_that_convert_changes(root: Path, found: TreeScan) -> None:
    document = api.scan_document(found, api.convert(root, Target(), Style.NATIVE))
    (diff,) = [part for part in document.parts if isinstance(part, CodeText)]
    assert diff.diff
    assert "+device = _ACCELERATOR" in diff.text
    assert all(len(row) == len(part.columns) for part in document.parts if isinstance(part, Table) for row in part.rows)


def test_sarif_names_rule_place_and_level_of_each_result(found: TreeScan) -> None:
    (run,) = sarif(api.scan_document(found), "hermes migrate", api.rules())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(found.places)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        assert place["region"]["startColumn"] >= 1
        assert "<" not in place["artifactLocation"]["uri"]
        assert result["level"] in ("error", "warning", "note", "none")
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("bad.py: the file cannot be parsed")


def test_every_rule_says_what_why_and_what_to_do_in_both_languages() -> None:
    for code, rule in RULES.items():
        assert re.fullmatch(r"[a-z0-9-]+", code)
        assert say(rule.message, "zh")
        assert all(say(text) != say(text, "zh") for text in (rule.why, rule.todo))


def test_every_rule_that_is_measured_later_is_a_rule_of_hermes() -> None:
    pages = {path.stem for path in (Path(__file__).resolve().parents[2] / "docs" / "rules").glob("*.md")}
    assert {rule.later for rule in RULES.values() if rule.later} <= pages


def test_how_sure_a_place_is_has_a_number_with_a_source() -> None:
    values = [CONFIDENCE[f"migrate.{one.value}"] for one in (Sure.GUESS, Sure.LIKELY, Sure.PROVEN)]
    assert values == sorted(values, key=lambda one: one.value)
    assert all(one.source for one in values)


def test_a_chinese_answer_has_no_english_sentence(scan: Scan) -> None:
    places = scan("import torch\nx = torch.ones(2).cuda()\nn = torch.cuda.nvtx\nimport apex\n").places
    for place in places:
        for text in (place.why, place.todo):
            assert re.search("[\u4e00-\u9fff]", say(text, "zh")), text


def test_nothing_is_decided_by_a_sentence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def known() -> tuple[object, ...]:
        tree = api.scan(root, Target(), workers=1)
        change = api.convert(root, Target(), Style.NATIVE, workers=1)
        document = api.scan_document(tree, change)
        kept = [(one.code, one.about, one.lines, one.message, one.confidence) for one in document.findings]
        return kept, document.facts, [file.after for file in change.files], api.is_clean(tree)

    before = known()

    def pseudo(message: Message, language: str) -> str:
        return " ".join((message.identifier, *(f"{{{one.name}}}" for one in message.arguments)))

    monkeypatch.setattr(saying, "template", pseudo)
    assert known() == before


def test_a_doubt_that_the_support_table_leaves_is_not_laid_to_names(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nm = torch.nn.MaxPool1d(2)\ndef f(batch):\n    batch.cuda()\n")
    found = scan_document(api.scan(tmp_path, Target(), 1)).findings
    doubts = {one.code: list(one.doubts) for one in found if one.about is Risk.STOPS}
    assert doubts == {"unsupported-api": [BY_TABLE], "cuda-method": [BY_HABIT]}
    assert "support table" in say(BY_TABLE)
