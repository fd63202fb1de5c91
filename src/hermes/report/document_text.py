"""Draws a document on the terminal: missing data, the answer, the findings, then tables, trees and code."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console

from hermes.base.errors import Diagnostic
from hermes.base.say import say
from hermes.model.document import CodeText, Document, Table, Tree, TreeNode
from hermes.report import value_labels
from hermes.report.document_cells import cell_of, numeric, shown_rows
from hermes.report.findings_text import draw_findings
from hermes.report.localized_texts import Tell
from hermes.report.terminal_lines import Screen
from hermes.report.value_labels import Label

_NOTES = 3
_FINDINGS = 8
_ROWS = 12
_NODES = 40
_LINES = 40
_WIDEST = 44
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_LEVELS = {"high": "red", "middle": "yellow", "low": "dim"}


def render_document(document: Document, console: Console, *, tell: Tell = say, whole: bool = False) -> None:
    """Draw the document on `console`; `tell` translates its texts, `whole` draws all rows and nodes."""
    screen = Screen(console, tell=tell)
    degraded = [one for one in document.coverage if one.level == "degraded"]
    _notes(screen, degraded[: None if whole else _NOTES])
    if not whole and len(degraded) > _NOTES:
        screen.line(value_labels.more(n=len(degraded) - _NOTES), indent=2)
    screen.line(document.answer, style="bold", hang=0, most=6)
    for source in document.inputs:
        screen.line((f"{source.role}: {source.path}", "dim"), indent=2)
    if document.findings:
        screen.gap()
        screen.line((Label.FINDINGS.message, "bold"))
        most = len(document.findings) if whole else _FINDINGS
        draw_findings(screen, document.findings, most=most, answer=document.answer)
    for part in document.parts:
        if isinstance(part, Table):
            _table(screen, part, whole=whole)
        elif isinstance(part, Tree):
            _tree(screen, part, whole=whole)
        elif part.text:
            _code(screen, part, whole=whole)
    info = [one for one in document.coverage if one.level == "info"]
    if info:
        screen.gap()
        _notes(screen, info[: None if whole else _NOTES])


def document_lines(document: Document, width: int, language: str) -> str:
    """The document as text of a given width, with terminal styles, for callers that draw it repeatedly."""
    from hermes.report.localized_texts import teller

    drawn = io.StringIO()
    render_document(document, Console(file=drawn, width=width, force_terminal=True), tell=teller(language))
    return drawn.getvalue().rstrip("\n")


def _notes(screen: Screen, notes: Sequence[Diagnostic]) -> None:
    for one in notes:
        style = "bold yellow" if one.level == "degraded" else "dim"
        place = [f"{one.where}: "] if one.where else []
        text = value_labels.note(message=one.message, lost=one.lost or None)
        screen.line((f"{screen.say(Label.COVERAGE.message)}: ", style), *place, text, style=style)


def _table(screen: Screen, part: Table, *, whole: bool) -> None:
    if not part.rows:
        return
    screen.gap()
    rows = shown_rows(part, len(part.rows) if whole else _ROWS)
    cells = [[_cut(screen.say(cell_of(column, part.rows[at][place], screen.say).text)) for place, column in
              enumerate(part.columns)] for at in rows]  # fmt: skip
    heads = [screen.say(column.title) for column in part.columns]
    kept = [at for at in range(len(heads)) if any(row[at] for row in cells)]
    widths = [max(cell_len(line[at]) for line in (heads, *cells)) for at in kept]
    # Columns without room are left out from the right; JSON and the page have all columns.
    while len(kept) > 1 and sum(widths) + 2 * len(widths) > screen.width - 2:
        kept, widths = kept[:-1], widths[:-1]
    left = max(part.total or 0, len(part.rows)) - len(rows)
    screen.line((part.title, "bold"), *(("  ", value_labels.more(n=left)) if left else ()))
    right = [numeric(part.columns[at].kind) for at in kept]
    for line, style in (
        (heads, "dim"),
        *((row, "bold" if at == part.marked else "") for at, row in zip(rows, cells, strict=True)),
    ):
        padded = (_padded(line[at], width, right=to) for at, width, to in zip(kept, widths, right, strict=True))
        screen.line(("  ".join(padded).rstrip(), style), indent=2, most=1)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 9]}…{text[-8:]}"


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _tree(screen: Screen, part: Tree, *, whole: bool) -> None:
    lines = [*_nodes(part.roots, part.marked, 0, whole=whole)]
    if not lines:
        return
    screen.gap()
    screen.line((part.title, "bold"))
    for depth, node in lines if whole else lines[:_NODES]:
        value = f"  {node.value}" if node.value else ""
        screen.line((f"{node.name}{value}", _LEVELS.get(node.level, "")), indent=2 + 2 * depth, most=1)
    if not whole and len(lines) > _NODES:
        screen.line(value_labels.more(n=len(lines) - _NODES), indent=2)


def _nodes(
    nodes: Sequence[TreeNode], marked: tuple[str, ...], depth: int, *, whole: bool
) -> list[tuple[int, TreeNode]]:
    """The tree nodes to show, each with its depth: all nodes above the third level, and those on the marked path."""
    shown: list[tuple[int, TreeNode]] = []
    for one in nodes:
        on_path = marked[:1] == (one.name,)
        shown.append((depth, one))
        if whole or on_path or depth == 0:
            shown += _nodes(one.below, marked[1:] if on_path else (), depth + 1, whole=whole)
    return shown


def _code(screen: Screen, part: CodeText, *, whole: bool) -> None:
    screen.gap()
    screen.line((part.title, "bold"))
    lines = part.text.splitlines()
    for line in lines if whole else lines[:_LINES]:
        screen.raw(line, indent=2, style=_STYLES.get(line[:1], "") if part.diff else "")
    if not whole and len(lines) > _LINES:
        screen.line(value_labels.more(n=len(lines) - _LINES), indent=2)
