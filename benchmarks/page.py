"""The page of results: tables in Markdown, and the blocks of a page that they replace."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.summary import Summary


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


def seconds(ns: int) -> str:
    """Seconds with two decimals, three below a second."""
    return f"{ns / 1e9:.3f}" if ns < 1_000_000_000 else f"{ns / 1e9:.2f}"


def gigabytes(size: int) -> str:
    """Gigabytes of 10^9 bytes with two decimals, megabytes below one tenth."""
    return f"{size / 1e6:.0f} MB" if size < 100_000_000 else f"{size / 1e9:.2f} GB"


def times(factor: float) -> str:
    """How many times, with one decimal."""
    return f"{factor:.1f} x"


def cost(summary: Summary) -> tuple[str, str, str, str]:
    """The four figures of a line: wall, CPU, the largest process, all processes."""
    return (
        seconds(summary.wall_ns),
        seconds(summary.cpu_ns),
        gigabytes(summary.peak_bytes),
        gigabytes(summary.together_bytes),
    )


COST_HEADER = ("wall s", "CPU s", "peak of the largest process", "peak of all processes")
