"""`hermes schema`: describes each table and column."""

from __future__ import annotations

import click

from hermes.cli.print_output import show_line, show_lines


@click.command("schema")
@click.argument("table", required=False, help="Name of one table; by default all tables are listed.")
def run(table: str | None) -> None:
    """List the tables, or the columns of one table with types, units and meaning."""
    from hermes.model.tables import TABLES, lookup

    if table is None:
        for known in TABLES.values():
            show_line(f"{known.name:<14} {known.row}")
        return
    chosen = lookup(TABLES, table)
    show_lines(f"{chosen.name}: a row is {chosen.row}\n")
    for column in chosen.columns:
        unit = f" [{column.unit}]" if column.unit else ""
        null = f" Null: {column.null}." if column.null else ""
        show_line(f"  {column.name:<16} {column.kind:<5} {column.doc}{unit}{null}")
