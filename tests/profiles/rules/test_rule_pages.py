"""Every rule has a page, sources for its numbers, and a cure that can be checked."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from tests.each import each

from hermes.knowledge import cases
from hermes.model.limit import Limit
from hermes.profiles.rules import ALL, MODULES, modules_of
from hermes.profiles.rules.rule import Finder, Rule

ROOT = Path(__file__).resolve().parents[3]
SECTIONS = ["What it detects", "Why it costs you", "When it is not a problem", "What to do", "How to check"]


EVERY = each(ALL, lambda rule: str(rule.code))
RULES = each(MODULES, lambda module: str(module.__name__.rpartition(".")[2]))
FINDERS = each([finder for rule in ALL for finder in rule.finders], lambda one: f"{one.code}-{one.name}")


@EVERY
def test_a_page_has_its_five_sections_in_order_and_none_is_empty(rule: Rule) -> None:
    parts = re.split(r"^## (.+)$", rule.page, flags=re.MULTILINE)
    assert parts[1::2] == SECTIONS
    assert all(len(text.split()) >= 5 for text in parts[2::2])


@EVERY
def test_a_page_begins_with_one_sentence_that_says_the_fault(rule: Rule) -> None:
    first, second = rule.page.splitlines()[:2]
    assert first.endswith(".")
    assert not second


@EVERY
def test_every_case_that_a_rule_points_to_exists(rule: Rule) -> None:
    known = {case.id for case in cases.cases()}
    assert set(rule.cases) <= known
    assert len(rule.cases) == len(set(rule.cases))


@RULES
def test_every_module_of_a_rule_is_in_the_list(module: ModuleType) -> None:
    (rule,) = (one for one in ALL if one.page == module.__doc__)
    assert rule.code == module.__name__.rpartition(".")[2].partition("_")[0].upper()
    found = [value for own in modules_of(module) for value in vars(own).values() if isinstance(value, Finder)]
    assert list(rule.finders) == found
    assert len({one.name for one in found}) == len(found)


@FINDERS
def test_a_case_belongs_to_what_finds_it_and_a_finding_has_the_cases_of_its_fault(finder: Finder) -> None:
    (rule,) = (one for one in ALL if one.code == finder.code)
    assert {*finder.cases} <= {*rule.cases}
    assert len(finder.cases) == len({*finder.cases})


@EVERY
def test_the_causes_that_a_rule_points_to_are_in_the_case_base(rule: Rule) -> None:
    assert len(set(rule.cases)) == len(rule.cases)
    assert [identity for identity in rule.cases if cases.case(identity) is None] == []


def test_codes_are_ordered_and_used_once() -> None:
    codes = [rule.code for rule in ALL]
    assert codes == sorted(set(codes))
    assert all(re.fullmatch(r"[A-Z]{2,3}\d{3}", code) for code in codes)


@RULES
def test_every_threshold_says_where_it_comes_from(module: ModuleType) -> None:
    limits = [value for own in modules_of(module) for value in vars(own).values() if isinstance(value, Limit)]
    assert limits
    for limit in limits:
        assert 0 < limit.value < (1e9 if limit.unit.startswith(("ns", "FLOP")) else 1)
        assert limit.unit
        assert len(limit.source) > 10
        assert not limit.source.startswith("docs/") or (ROOT / limit.source).is_file()


@RULES
def test_every_page_of_the_documentation_that_a_rule_points_to_exists(module: ModuleType) -> None:
    text = "".join(Path(str(own.__file__)).read_text("utf-8") for own in modules_of(module))
    missing = [name for name in re.findall(r"docs/[\w./-]+\.md", text) if not (ROOT / name).is_file()]
    assert missing == []
