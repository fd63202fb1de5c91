"""Pages that repeat the code are up to date and complete."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import click
import pytest
from tests.each import each

from hermes.cli.app import app
from hermes.cli.exit_codes import rows_of
from hermes.knowledge import cases
from hermes.model.symptom import symptoms
from hermes.model.tables import TABLES, Table
from hermes.profiles.measure import load_all
from hermes.profiles.rules import ALL


def test_generated_pages_say_what_the_code_says(generator: ModuleType) -> None:
    assert generator.stale() == [], "run `make docs`"


def test_a_page_that_was_edited_by_hand_is_found(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "DOCS", tmp_path)
    generator.write()
    assert generator.stale() == []
    (tmp_path / "cli.md").write_text("by hand", "utf-8")
    (tmp_path / "rules" / "OLD001.md").write_text("a rule that is gone", "utf-8")
    assert generator.stale() == ["cli.md", "rules/OLD001.md"]


@each(TABLES.values(), lambda table: table.name)
def test_every_table_has_a_section_with_all_its_columns(table: Table, pages: dict[str, str]) -> None:
    section = pages["docs/tables.md"].split(f"\n## `{table.name}`\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(table.names)


def test_every_rule_has_a_page_with_its_limits_and_a_place_in_the_index(pages: dict[str, str]) -> None:
    for rule in ALL:
        page = pages[f"docs/rules/{rule.code}.md"]
        assert rule.page.strip().splitlines()[0].rstrip(".") in page
        assert "\n- more than " in page.split("## Limits")[1]
        assert f"[{rule.code}]({rule.code}.md)" in pages["docs/rules/README.md"]


def test_every_command_has_a_section_and_the_meaning_of_its_exit_codes(
    pages: dict[str, str], generator: ModuleType
) -> None:
    sections = dict(re.findall(r"^## `hermes ([\w ]+)`\n(.*?)(?=^## |\Z)", pages["docs/cli.md"], re.M | re.S))
    commands = {" ".join(name): command for name, command in generator.commands(app)}
    assert [*sections] == [*commands]
    for name, command in commands.items():
        told = re.findall(r"^\| (\d+|other) \| (.+) \|$", sections[name], re.M)
        assert told == ([] if isinstance(command, click.Group) else [*rows_of(command)])


def test_options_are_spelled_as_they_are_typed(pages: dict[str, str]) -> None:
    assert "| `-o PATH`, `--out PATH` |" in pages["docs/cli.md"]
    assert "--format {text,json,html,xlsx}" in pages["docs/cli.md"]


def test_every_case_has_a_section_on_the_page_of_its_layer_and_a_place_in_the_index(pages: dict[str, str]) -> None:
    for one in cases.cases():
        section = pages[f"docs/cases/{one.layer}.md"].split(f"\n## {one.id}\n")[1].split("\n## ")[0]
        assert all(text in section for text in (one.cause, one.cure, one.before, one.after, one.gain))
        assert all(f"- `{symptom.text}`" in section for symptom in one.symptoms)
        assert f"[{one.id}]({one.layer}.md#{one.id.lower()})" in pages["docs/cases/README.md"]


def test_every_measure_is_on_the_page_of_measures(pages: dict[str, str]) -> None:
    named = re.findall(r"^\| `([a-z_.]+)", pages["docs/cases/measures.md"], re.M)
    load_all()
    assert named == sorted(symptoms())
