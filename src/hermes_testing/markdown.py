"""Tables in Markdown, and the blocks of a page that results replace."""

from __future__ import annotations

from collections.abc import Sequence


class MarkerError(Exception):
    """A page has no place for a result, or no end of it."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [_line(header), _line(["---", *["---:"] * (len(header) - 1)])]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    safe = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(safe)} |"


def replace_block(page: str, name: str, text: str) -> str:
    """The page with `text` between `<!-- results NAME -->` and `<!-- end NAME -->`, markers kept.

    Raises `MarkerError` when one of them is not there, or not in that order.
    """
    begin, end = f"<!-- results {name} -->", f"<!-- end {name} -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise MarkerError(f"the page has no block {begin} … {end}")
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"
