"""The report's script: modules put into one, the words it may say, and data that stays data."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser

import pytest

from hermes.model.report import Report
from hermes.report import shared_assets
from hermes.report.html import render_html
from hermes.report.shared_assets import BundleError, bundled
from hermes.report.table_cells import HELD, LIMIT

DOM = 'export const h = 1;\nexport class Box {}\nexport async function say() {\n  return "export";\n}\n'


def test_modules_keep_a_scope_each_and_come_after_what_they_import() -> None:
    made = bundled(
        "main.js",
        {
            "main.js": '// Says.\n\nimport {\n  h as own,\n  say,\n} from "./dom.js";\nimport { b } from "./b.js";\n'
            "say(own, b);\n",
            "b.js": 'import { h } from "./dom.js";\n/** @param {string} a */\nexport function b(a) {\n'
            "  return h; // kept\n}\n",
            "dom.js": DOM,
        },
    )
    assert made == (
        'const $dom = (() => {\nconst h = 1;\nclass Box {}\nasync function say() {\n  return "export";\n}\n'
        "return { h, Box, say };\n})();\n"
        "const $b = (() => {\nconst { h } = $dom;\nfunction b(a) {\n  return h; // kept\n}\nreturn { b };\n})();\n"
        "(() => {\nconst { h: own, say } = $dom;\nconst { b } = $b;\n\nsay(own, b);\n})();\n"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('import { gone } from "./dom.js";\n', "gone"),
        ('import { h } from "./none.js";\n', "not there"),
        ('import { a } from "./main.js";\n', "import each other"),
        ('import * as dom from "./dom.js";\n', r"import \* as dom"),
        ('import "./dom.js";\n', 'import "./dom.js"'),
        ('const later = import("./dom.js");\n', "const later"),
        ("const here = import.meta.url;\n", "const here"),
        ("export default 1;\n", "export default"),
        ("export let a = 1;\n", "export let"),
        ("const a = 1;\nexport { a };\n", "export {"),
        ('const a = "</ScRipt>";\n', "end of itself"),
        ('const a = "<!-- ";\n', "end of itself"),
    ],
)
def test_what_one_script_cannot_keep_is_refused(body: str, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        bundled("main.js", {"main.js": body, "dom.js": DOM})


def test_the_reports_script_is_the_apps_modules_whole_and_asks_for_nothing() -> None:
    script = shared_assets.script()
    for name in (
        "table.js",
        "charts.js",
        "cells.js",
        "format.js",
        "dom.js",
        "copying.js",
        "matrix.js",
        "roofline.js",
        "pipeline.js",
    ):
        # What is left of a module when the forms of import and export, and the comments, are taken away.
        kept = [
            line for line in shared_assets.files()[name].decode().splitlines() if re.match(r"\s+(return|const) ", line)
        ]
        assert len(kept) > 2
        assert [line for line in kept if line not in script] == []
    assert re.findall(r"\bfetch\(|XMLHttpRequest|EventSource|localStorage|\beval\(|new Function", script) == []


def test_the_report_holds_every_word_that_its_script_may_say_and_no_word_of_other_pages() -> None:
    keys, prefixes = shared_assets.message_keys(shared_assets.script())
    known = shared_assets.words()
    assert keys <= set(known)
    assert prefixes == {"copy_", "part.", "pass."}
    assert known["filter_of"] == "Filter {title}"
    assert "page.live" not in known
    # No word is asked for in a way that cannot be seen here.
    asked = re.findall(r"\bt\((?![\"`]|key\b)[^\n]{0,40}", shared_assets.script())
    assert [one for one in asked if not re.match(r't\([^()"`]*\? "', one)] == []


class _Data(HTMLParser):
    """The text of the element that holds the data, as a browser takes it."""

    text, inside = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = ("id", "data") in attrs

    def handle_data(self, data: str) -> None:
        self.text += data if self.inside else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def data_of(page: str) -> dict[str, dict[str, dict[str, list[list[object]]]]]:
    parser = _Data()
    parser.feed(page)
    assert not set(parser.text) & set("<>&\u2028\u2029")
    found: dict[str, dict[str, dict[str, list[list[object]]]]] = json.loads(parser.text)
    return found


@pytest.mark.parametrize("name", ["real", "hostile", "many", "unmeasured", "empty"])
def test_the_data_of_every_table_is_what_the_page_is_written_with(request: pytest.FixtureRequest, name: str) -> None:
    page = render_html(request.getfixturevalue(name))
    held = data_of(page)["tables"]
    for key, table in held.items():
        section = page.split(f'id="{key}"')[1].split("</section>")[0]
        rows = re.findall(r"<tr>(.*?)</tr>", section.split("<tbody>")[1], re.DOTALL)
        written = [re.findall(r"<(t[hd])[^>]*>(.*?)</\1>", row, re.DOTALL) for row in rows]
        texts = [[html.unescape(re.sub(r"<[^>]+>", "", cell)) for _, cell in row] for row in written]
        assert texts == [[_shown(cell) for cell in row] for row in table["rows"][:LIMIT]], key
        assert len(table["rows"]) <= HELD
    assert len(held) == page.count('<section class="data"')


def _shown(cell: object) -> str:
    if isinstance(cell, str):
        return cell
    assert isinstance(cell, list)
    return " ".join(part for at, part in enumerate(cell) if part and at != 1)


def test_a_hostile_name_cannot_end_the_data(hostile: Report) -> None:
    page = render_html(hostile)
    (names,) = [
        [row[0] for row in table["rows"]] for key, table in data_of(page)["tables"].items() if key == "top-kernels"
    ]
    assert "</script><img src=x onerror=alert(1)>" in names
    assert page.count("<script") == page.count("</script") == 2
