"""Pages of rules and cases in Chinese say what the English ones say: who changes one changes the other."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from hermes.knowledge import cases
from hermes.profiles.api import ALL, page_of
from hermes.profiles.rules.rule_pages import CHINESE

_TOKENS = re.compile(r"`[^`]+`|(?<![\w.])\d+(?:\.\d+)?(?![\w])")


def mark(text: str) -> str:
    """What the Chinese text carries of the English one that it was written from."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def of_case(one: cases.Case) -> str:
    """All sentences of an entry."""
    return "\n".join(str(getattr(one, name)) for name in cases.SAID)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_the_page_of_a_rule_is_in_chinese_what_it_is_in_english(rule: Any) -> None:
    text = (CHINESE / f"{rule.code}.md").read_text("utf-8")
    english, chinese = rule.page.strip(), page_of(rule, "zh")
    assert text.splitlines()[0] == f"<!-- {mark(english)} -->", "the English page changed: write this one anew"
    assert chinese.count("\n## ") == english.count("\n## ")
    assert set(_TOKENS.findall(english)) <= set(_TOKENS.findall(chinese)) | set(re.findall(r"\d+(?:\.\d+)?", chinese))
    assert re.search("[\u4e00-\u9fff]", chinese)


@pytest.mark.parametrize("layer", cases.LAYERS)
def test_the_cases_of_a_layer_are_all_in_chinese(layer: str) -> None:
    rows = cases._toml(Path(cases.__file__).parent / "zh" / f"{layer}.toml")
    assert list(rows) == [one.id for one in cases.cases_of(layer)]
    for one in cases.cases_of(layer):
        row = rows[one.id]
        assert row["of"] == mark(of_case(one)), f"{one.id} changed in English: write it anew"
        assert {"cause", "confirm", "cure", "risk"} <= set(row)
        assert len(row.get("not_measured", [])) == len(one.not_measured)
