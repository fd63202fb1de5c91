"""A document on the terminal: what could not be seen, the answer, the findings, then its tables, trees and code."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console

from hermes.base.errors import Diagnostic
from hermes.base.say import say
from hermes.model.document import Code, Document, Node, Table, Tree
from hermes.report import labels
from hermes.report.document_cells import cell_of, numeric, shown_rows
from hermes.report.findings_text import draw_findings
from hermes.report.labels import Label
from hermes.report.screen import Screen
from hermes.report.told import Tell

_NOTES = 3
_FINDINGS = 8
_ROWS = 12
_NODES = 40
_LINES = 40
_WIDEST = 44
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_LEVELS = {"high": "red", "middle": "yellow", "low": "dim"}


def render_document(document: Document, console: Console, *, tell: Tell = say, whole: bool = False) -> None:
    """Draw the document on `console`; `tell` puts its texts into another language, `whole` leaves nothing out."""
    screen = Screen(console, tell=tell)
    degraded = [one for one in document.coverage if one.level == "degraded"]
    _notes(screen, degraded[: None if whole else _NOTES])
    if not whole and len(degraded) > _NOTES:
        screen.line(labels.more(n=len(degraded) - _NOTES), indent=2)
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


def _notes(screen: Screen, notes: Sequence[Diagnostic]) -> None:
    for one in notes:
        style = "bold yellow" if one.level == "degraded" else "dim"
        place = [f"{one.where}: "] if one.where else []
        text = labels.lost(message=one.message, lost=one.lost) if one.lost else one.message
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
    # What has no room is left out from the right; JSON and the page have all.
    while len(kept) > 1 and sum(widths) + 2 * len(widths) > screen.width - 2:
        kept, widths = kept[:-1], widths[:-1]
    left = max(part.total or 0, len(part.rows)) - len(rows)
    screen.line((part.title, "bold"), *(("  ", labels.more(n=left)) if left else ()))
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
        screen.line(labels.more(n=len(lines) - _NODES), indent=2)


def _nodes(nodes: Sequence[Node], marked: tuple[str, ...], depth: int, *, whole: bool) -> list[tuple[int, Node]]:
    """The nodes that are shown, each with its depth: all above the third level, and those on the marked path."""
    shown: list[tuple[int, Node]] = []
    for one in nodes:
        on_path = marked[:1] == (one.name,)
        shown.append((depth, one))
        if whole or on_path or depth == 0:
            shown += _nodes(one.below, marked[1:] if on_path else (), depth + 1, whole=whole)
    return shown


def _code(screen: Screen, part: Code, *, whole: bool) -> None:
    screen.gap()
    screen.line((part.title, "bold"))
    lines = part.text.splitlines()
    for line in lines if whole else lines[:_LINES]:
        screen.raw(line, indent=2, style=_STYLES.get(line[:1], "") if part.diff else "")
    if not whole and len(lines) > _LINES:
        screen.line(labels.more(n=len(lines) - _LINES), indent=2)
