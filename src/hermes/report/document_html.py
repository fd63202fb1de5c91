"""Writes a document as one HTML file that needs no network; its script only sorts and filters tables."""

from __future__ import annotations

import json
from functools import cache

from jinja2 import Template
from markupsafe import Markup

from hermes.model.document import CodeText, Document, Table, Tree, TreeNode
from hermes.report import palette, shared_assets
from hermes.report.document_cells import table_of
from hermes.report.html import asset, environment, policy
from hermes.report.inline_json import ESCAPED, table_data
from hermes.report.localized_texts import teller
from hermes.report.table_cells import LIMIT
from hermes.version import __version__

_TEMPLATE = "document.html.j2"
_MOST_NODES = 5_000
_LINES = 4_000


def document_html(document: Document, language: str = "en") -> str:
    """The HTML page of a document, in English (`en`) or Chinese (`zh`). Every text of the document is escaped."""
    css = Markup(palette.style() + shared_assets.style() + asset("report.css"))
    script = Markup(shared_assets.script("document.js"))
    tell = teller(language)
    tables = {one.key: table_of(one, tell) for one in document.parts if isinstance(one, Table) and one.rows}
    held = {
        "language": language, "words": shared_assets.words(language, "document.js"), "written": LIMIT, "charts": {},
        "tables": {key: table_data(one, str, str, language) for key, one in tables.items()}, "document": {},
    }  # fmt: skip
    data = json.dumps(held, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(ESCAPED)
    return template().render(
        tell=tell, document=document, version=__version__, language=language, css=css, script=script,
        policy=policy(css, script), data=Markup(data), tables=tables,
        degraded=[one for one in document.coverage if one.level == "degraded"],
        kind_of=_kind, most_nodes=_MOST_NODES, code_lines=_code_lines, open_at=_open_at,
    )  # fmt: skip


@cache
def template() -> Template:
    """The compiled Jinja2 template of the page."""
    return environment().get_template(_TEMPLATE)


def _kind(part: Table | Tree | CodeText) -> str:
    return "table" if isinstance(part, Table) else "tree" if isinstance(part, Tree) else "code"


def _code_lines(part: CodeText) -> list[tuple[str, str]]:
    """The lines of a code block, each with its role in a diff."""
    marks = {"+": "plus", "-": "minus", "@": "hunk"} if part.diff else {}
    return [(line, marks.get(line[:1], "")) for line in part.text.splitlines()[:_LINES]]


def _open_at(node: TreeNode, depth: int, marked: tuple[str, ...]) -> bool:
    """Whether a tree node is shown open: the nodes of the first level, and those on the path to the marked node."""
    return depth == 0 or marked[:1] == (node.name,)
