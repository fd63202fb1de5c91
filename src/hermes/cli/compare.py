"""`hermes compare`: what changed from one run to another."""

from __future__ import annotations

import enum
import json
from pathlib import Path

import click

from hermes.cli import options
from hermes.cli.exits import Exit, ends, leave
from hermes.cli.show import show_data, show_lines


class Format(str, enum.Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"


class By(str, enum.Enum):
    """What stands side by side."""

    RANK = "rank"
    STEP = "step"


@ends(
    {
        Exit.DONE: "all of both runs was compared, and the step takes no longer",
        Exit.NO: "the step takes longer, a part of a run was not compared, or there are too few steps to tell",
    }
)
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
@click.option(
    "--steps",
    default="",
    metavar="LIST[:LIST]",
    help="Only these steps, such as 50-52; 50-52:90-92 holds those of BEFORE against as many others of AFTER.",
)
@options.capture
@options.lang
def run(
    before: Path | str, after: Path | str, form: Format, by: By | None, ranks: str, steps: str, capture: str,
    lang: str | None,
) -> None:  # fmt: skip
    """Say whether a run is as fast as one before it, and what changed: parts of the step, operators, findings, more.

    Only runs that share all ranks, steps, kinds of data and operators are called as fast as each other, slower or
    faster: anything else says first what was not compared.
    """
    from hermes.cli.show import load_profiles

    chosen = zip((before, after), _both("--ranks", ranks), _both("--steps", steps), strict=True)
    loaded = [
        load_profiles([path], capture, ranks=own, steps=when, lacks="in the answer") for path, own, when in chosen
    ]
    from hermes.profiles.api import analyze, compared
    from hermes.report.compare import comparison_document, comparison_lines

    first, second = ((one, analyze(one)) for one in loaded)
    found = compared(first, second, by.value if by else "", ranks="in order" if ":" in ranks else "by number")
    if form is Format.JSON:
        show_data(json.dumps(comparison_document(found), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        show_lines("\n".join(comparison_lines(found, options.teller(lang))))
    leave(Exit.DONE if found.holds else Exit.NO)


def _both(option: str, text: str) -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """`LIST[:LIST]` as the numbers for each run: the same, where one list is given."""
    first, _, other = text.partition(":")
    return options.numbers(option, first), options.numbers(option, other or first)
