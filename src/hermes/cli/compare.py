"""`hermes compare`: finds what changed from one run to another."""

from __future__ import annotations

import enum
import json
from pathlib import Path

import click

from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_data, show_lines


class Format(str, enum.Enum):
    """The output formats of `hermes compare`."""

    TEXT = "text"
    JSON = "json"


class ComparedBy(str, enum.Enum):
    """The parts of two runs that are shown side by side."""

    RANK = "rank"
    STEP = "step"


@ends(
    {
        Exit.DONE: "all of both runs was compared, and the step takes no longer",
        Exit.NO: "the step takes longer, a part of a run was not compared, or there are too few steps to tell",
    }
)
@click.command("compare")
@click.argument(
    "before", type=shared_options.PathOrUrl(), help="The run before: a folder or file with profiles, or a URL."
)
@click.argument(
    "after", type=shared_options.PathOrUrl(), help="The run after: a folder or file with profiles, or a URL."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(Format, case_sensitive=False),
    default=Format.TEXT,
    help="Format of the output.",
)
@click.option(
    "--by",
    type=click.Choice(ComparedBy, case_sensitive=False),
    help="Show both runs side by side: each rank, or each step of each rank.",
)
@click.option(
    "--ranks",
    default="",
    metavar="LIST[:LIST]",
    help="Only these ranks, such as 0,4-7; 3:0 compares rank 3 of BEFORE with rank 0 of AFTER.",
)
@click.option(
    "--steps",
    default="",
    metavar="LIST[:LIST]",
    help="Only these steps, such as 50-52; 50-52:90-92 compares steps 50-52 of BEFORE with steps 90-92 of AFTER.",
)
@shared_options.capture
@shared_options.lang
def run(
    before: Path | str, after: Path | str, form: Format, by: ComparedBy | None, ranks: str, steps: str, capture: str,
    lang: str | None,
) -> None:  # fmt: skip
    """Say whether a run is as fast as one before it, and what changed: parts of the step, operators, findings, more.

    A run is called as fast, slower or faster only if both runs share all ranks, steps, kinds of data and operators.
    Otherwise the answer first says what was not compared.
    """
    from hermes.cli.print_output import load_profiles

    chosen = zip((before, after), _both("--ranks", ranks), _both("--steps", steps), strict=True)
    loaded = [
        load_profiles([path], capture, ranks=own, steps=when, lacks="in the answer") for path, own, when in chosen
    ]
    from hermes.profiles.api import analyze, compared
    from hermes.report.comparison_output import comparison_document, comparison_lines

    first, second = ((one, analyze(one)) for one in loaded)
    found = compared(first, second, by.value if by else "", ranks="in order" if ":" in ranks else "by number")
    if form is Format.JSON:
        show_data(json.dumps(comparison_document(found), ensure_ascii=False, allow_nan=False, indent=1))
    else:
        show_lines("\n".join(comparison_lines(found, shared_options.teller(lang))))
    leave(Exit.DONE if found.holds else Exit.NO)


def _both(option: str, text: str) -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """The numbers in `LIST[:LIST]` for each run; one list counts for both runs."""
    first, _, other = text.partition(":")
    return shared_options.numbers(option, first), shared_options.numbers(option, other or first)
