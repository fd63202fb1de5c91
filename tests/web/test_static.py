"""The files of the front end and of the report: one catalogue, nothing from elsewhere, no markup made of text."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from tests.each import each

import hermes.report
import hermes.web
from hermes.model.tables import TABLES
from hermes.report import shared_assets
from hermes.web.listed_tables import listed
from hermes.web.page_server import PAGES, static

STATIC = Path(next(iter(hermes.web.__path__))) / "static"
ASSETS = Path(next(iter(hermes.report.__path__))) / "assets"
SHARED = (ASSETS / "components", ASSETS / "translations")
FILES = [path for root in (STATIC, ASSETS) for path in sorted(root.rglob("*.*"))]
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
CATALOGUE = shared_assets.catalogue()
CJK = re.compile("[\u4e00-\u9fff]")


def test_the_shell_and_the_server_have_the_same_pages() -> None:
    shell = (STATIC / "app.js").read_text("utf-8")
    assert tuple(re.findall(r"""^  \["(\w*)", "\w+", \(\) => import""", shell, re.MULTILINE)) == PAGES


def test_every_word_is_there_in_both_languages() -> None:
    assert all(len(both) == 2 and all(text.strip() for text in both) for both in CATALOGUE.values())


def test_placeholders_are_the_same_in_both_languages() -> None:
    def names(text: str) -> set[str]:
        return set(re.findall(r"\{(\w+)\}", text))

    assert {key for key, (en, zh) in CATALOGUE.items() if names(en) != names(zh)} == set()


def test_sentences_are_translated() -> None:
    assert [key for key, (en, zh) in CATALOGUE.items() if " " in en and not CJK.search(zh)] == []


@each(SCRIPTS, lambda path: path.name)
def test_every_word_that_a_script_uses_is_in_the_catalogue(script: Path) -> None:
    used = re.findall(r"""\bt\("([^"]+)\"""", script.read_text("utf-8"))
    assert [key for key in used if key not in CATALOGUE] == []


@each(SCRIPTS, lambda path: path.name)
def test_every_table_that_a_script_names_has_a_title(script: Path) -> None:
    named = re.findall(r"""table\(\{ ?table: "([^"]+)\"(?![^}]*title:)""", script.read_text("utf-8"))
    assert [key for key in named if f"table.{key}" not in CATALOGUE] == []


@each(SCRIPTS, lambda path: path.name)
def test_no_script_makes_markup_or_code_of_text(script: Path) -> None:
    text = script.read_text("utf-8")
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.srcdoc", text) == []
    )


@each(FILES, lambda path: path.name)
def test_no_file_is_of_others_or_names_another_host(path: Path) -> None:
    assert path.suffix in {".js", ".css", ".html", ".json", ".j2"}
    hosts = set(re.findall(r"https?://[\w.-]+", path.read_text("utf-8")))
    assert hosts <= {"http://www.w3.org"}


@each(sorted(name for name in static() if name.endswith(".js")))
def test_every_import_is_a_file_that_is_served(script: str) -> None:
    for name in re.findall(r"""(?:from|import\()\s*"(\.[^"]+)\"""", static()[script].decode()):
        assert posixpath.normpath(posixpath.join(posixpath.dirname(script), name)) in static(), name


def test_no_file_of_the_app_hides_one_that_it_shares() -> None:
    assert {path.name for path in STATIC.iterdir()} & {path.name for root in SHARED for path in root.iterdir()} == set()


@each([path for path in FILES if path.suffix in (".js", ".css")], lambda path: path.name)
def test_the_first_line_says_what_lives_there(path: Path) -> None:
    assert path.read_text("utf-8").startswith(("// ", "/* "))
    assert len(path.read_text("utf-8").splitlines()) <= 500


def test_every_column_of_the_cached_tables_has_a_word() -> None:
    names = {column.name for table in TABLES.values() for column in table.columns}
    assert sorted(name for name in names if f"col.{name}" not in CATALOGUE) == []


def test_every_table_and_column_of_the_analysis_has_a_word(local: Any) -> None:
    found = listed(local.study.document)
    # Words of measures come with the data: the catalogue has those of the modules that were loaded when it was made.
    known = {**CATALOGUE, **shared_assets.declared_words()}
    assert sorted(key for key in found if f"table.{key}" not in known) == []
    names = {name for table in found.values() for name in table.columns}
    assert sorted(name for name in names if f"col.{name}" not in known) == []
