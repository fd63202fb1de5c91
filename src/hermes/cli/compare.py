"""`hermes compare`: what changed from one run to another."""

from __future__ import annotations

import enum
import json
from pathlib import Path

import click

from hermes.cli import options
from hermes.cli.show import show_data, show_lines


class Format(str, enum.Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"


class By(str, enum.Enum):
    """What stands side by side."""

    RANK = "rank"
    STEP = "step"


@click.command("compare")
@click.argument("before", type=options.Place(), help="The run before: a folder or file with profiles, or a URL.")
@click.argument("after", type=options.Place(), help="The run after.")
@click.option(
    "--format", "form", type=click.Choice(Format, case_sensitive=False), default=Format.TEXT, help="What to print."
)
@click.option(
    "--by", type=click.Choice(By, case_sensitive=False), help="Both runs side by side: each rank, or each step of each."
)
@click.option(
    "--ranks",
    default="",
    metavar="LIST[:LIST]",
    help="Only these ranks, such as 0,4-7; 3:0 holds rank 3 of BEFORE against rank 0 of AFTER.",
)
@options.capture
@options.lang
def run(
    before: Path | str, after: Path | str, form: Format, by: By | None, ranks: str, capture: str, lang: str | None
) -> None:
    """Say what changed between two runs: parts of the step, operators, kernels, findings, settings, and the noise."""
    from hermes.cli.show import load_profiles

    first_ranks, _, other_ranks = ranks.partition(":")
    only = [options.numbers("--ranks", one) for one in (first_ranks, other_ranks or first_ranks)]
    loaded = [load_profiles([path], capture, ranks=own) for path, own in zip((before, after), only, strict=True)]
    from hermes.profiles.api import analyze, compared
    from hermes.report.compare import comparison_document, comparison_lines

    first, second = ((one, analyze(one)) for one in loaded)
    found = compared(first, second, by.value if by else "")
    if form is Format.JSON:
        show_data(json.dumps(comparison_document(found), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        show_lines("\n".join(comparison_lines(found, options.teller(lang))))
