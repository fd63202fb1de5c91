"""Assembles the command `hermes` from its subcommands."""

from __future__ import annotations

import click

from hermes.cli import (
    affinity,
    analyze,
    cache,
    cases,
    chips,
    compare,
    detect,
    explain,
    export,
    exporter,
    fleet,
    migrate,
    operators,
    precision,
    profile,
    run,
    schema,
    serve,
    sql,
    stacks,
    thresholds,
    watch,
    whatif,
)
from hermes.version import __version__


@click.group(no_args_is_help=True, context_settings={"max_content_width": 120})
@click.version_option(__version__, prog_name="hermes", message="%(prog)s %(version)s", help="Print the version.")
@click.help_option(help="Print this help.")
def app() -> None:
    """Finds what bounds an AI training step, from the profiles you already have."""


for _command in (
    analyze.run,
    whatif.run,
    operators.run,
    compare.run,
    serve.run,
    export.run,
    sql.run,
    sql.tables,
    schema.run,
    explain.rules,
    explain.run,
    cases.run,
    chips.run,
    cache.run,
    run.run,
    profile.run,
    watch.run,
    stacks.run,
    thresholds.run,
    detect.run,
    exporter.run,
    fleet.run,
    migrate.run,
    affinity.run,
    precision.run,
):
    app.add_command(_command)
