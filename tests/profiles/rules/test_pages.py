"""Every rule has a page, sources for its numbers, and a cure that can be checked."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

from tests.each import each

from hermes.knowledge import cases
from hermes.model.limit import Limit
from hermes.profiles import rules
from hermes.profiles.rules import ALL
from hermes.profiles.rules.rule import Rule

ROOT = Path(__file__).resolve().parents[3]
SECTIONS = ["What it detects", "Why it costs you", "When it is not a problem", "What to do", "How to check"]


def modules() -> list[ModuleType]:
    families = [found.name for found in pkgutil.iter_modules(rules.__path__) if found.ispkg]
    packages = [importlib.import_module(f"{rules.__name__}.{family}") for family in families]
    return [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for package in packages
        for found in pkgutil.iter_modules(package.__path__)
    ]


EVERY = each(ALL, lambda rule: str(rule.code))
MODULES = each(modules(), lambda module: str(module.__name__.rpartition(".")[2]))


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


@MODULES
def test_every_module_of_a_rule_is_in_the_list(module: ModuleType) -> None:
    (rule,) = (value for value in vars(module).values() if isinstance(value, Rule))
    assert rule in ALL
    assert rule.code == module.__name__.rpartition(".")[2].partition("_")[0].upper()


@EVERY
def test_the_causes_that_a_rule_points_to_are_in_the_case_base(rule: Rule) -> None:
    assert len(set(rule.cases)) == len(rule.cases)
    assert [identity for identity in rule.cases if cases.case(identity) is None] == []


def test_codes_are_ordered_and_used_once() -> None:
    codes = [rule.code for rule in ALL]
    assert codes == sorted(set(codes))
    assert all(re.fullmatch(r"[A-Z]{2,3}\d{3}", code) for code in codes)


@MODULES
def test_every_threshold_says_where_it_comes_from(module: ModuleType) -> None:
    limits = [value for value in vars(module).values() if isinstance(value, Limit)]
    assert limits
    for limit in limits:
        assert 0 < limit.value < (1e9 if limit.unit.startswith(("ns", "FLOP")) else 1)
        assert limit.unit
        assert len(limit.source) > 10
        assert not limit.source.startswith("docs/") or (ROOT / limit.source).is_file()


@MODULES
def test_every_page_of_the_documentation_that_a_rule_points_to_exists(module: ModuleType) -> None:
    assert module.__file__
    text = Path(module.__file__).read_text("utf-8")
    missing = [name for name in re.findall(r"docs/[\w./-]+\.md", text) if not (ROOT / name).is_file()]
    assert missing == []
