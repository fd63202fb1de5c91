"""`hermes sql` and `hermes tables`: query the tables behind the report, with DuckDB."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.sanitize_text import clean_cell, harmless_line
from hermes.cli import shared_options
from hermes.cli.print_output import show_data, show_line, show_lines

if TYPE_CHECKING:
    import polars as pl


_WIDE = 4_000


class Format(str, enum.Enum):
    """The output formats for rows of `hermes sql`."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


_path = click.argument("path", type=shared_options.PathOrUrl(), help="Folder or file with profiles, or a URL of them.")


@click.command("sql")
@_path
@click.argument("query", help="SQL query, such as: select name, sum(dur_ns) from kernel group by 1 order by 2 desc")
@click.option(
    "--format", "form", type=click.Choice(Format, case_sensitive=False), default=Format.TABLE,
    help="Format of the rows.",
)  # fmt: skip
@shared_options.capture
def run(path: Path | str, query: str, form: Format, capture: str) -> None:
    """Query the tables of a profile in SQL; `hermes schema` lists the tables."""
    from hermes.cli.print_output import load_profiles

    loaded = load_profiles([path], capture)
    from hermes.profiles.api import query as ask

    _print(ask(loaded, query), form)


@click.command("tables")
@_path
@shared_options.capture
def tables(path: Path | str, capture: str) -> None:
    """List the tables of a profile with their number of rows."""
    from hermes.cli.print_output import load_profiles

    loaded = load_profiles([path], capture)
    from hermes.profiles.api import table_sizes

    for name, rows, row in table_sizes(loaded):
        show_line(f"{name:<14} {rows:>10}  {row}")
    show_lines(
        f"\nParquet files: "
        f"{', '.join(str(rank.folder) for rank in loaded.ranks[:4])}{' …' if len(loaded.ranks) > 4 else ''}"
    )


def _print(rows: pl.DataFrame, form: Format) -> None:
    if form is Format.CSV:
        show_data(_as_text(rows).write_csv(), end="")
    elif form is Format.JSON:
        show_data(rows.write_json())
    else:
        _table(rows)


def _as_text(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, with texts marked that a spreadsheet would read as formulas."""
    import polars as pl

    return rows.rename(clean_cell).with_columns(pl.col(pl.String).map_elements(clean_cell, return_dtype=pl.String))


def _table(rows: pl.DataFrame) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from hermes.cli.print_output import plain

    shown = Table(box=None, pad_edge=False)
    for name, kind in rows.schema.items():
        shown.add_column(Text(harmless_line(name)), justify="right" if kind.is_numeric() else "left", overflow="fold")
    for row in rows.iter_rows():
        shown.add_row(*(Text("" if value is None else plain(str(value))) for value in row))
    if not rows.height:
        show_line("0 rows")
        return
    # A pipe has no width: a row stays on one line.
    Console(width=None if sys.stdout.isatty() else _WIDE).print(shown)
