"""Puts the commands together."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes.cli import analyze, cache, explain, schema, sql
from hermes.version import __version__

app = typer.Typer(
    help="Finds what bounds an AI training step, from the profiles you already have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hermes {__version__}")
        raise typer.Exit


@app.callback()
def _hermes(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("analyze")(analyze.run)
app.command("sql")(sql.run)
app.command("tables")(sql.tables)
app.command("schema")(schema.run)
app.command("rules")(explain.rules)
app.command("explain")(explain.run)
app.command("cache")(cache.run)
