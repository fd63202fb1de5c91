"""`hermes export`: writes the timeline of an input, for Perfetto."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.errors import HermesError, InputError
from hermes.cli import shared_options
from hermes.cli.print_output import show_line

if TYPE_CHECKING:
    from hermes.profiles.api import TimelineCut

_WINDOW = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")


@click.command("export")
@shared_options.profiles
@click.option("--perfetto", "out", required=True, type=click.Path(path_type=Path), metavar="OUT",
              help="File to write; open it at https://ui.perfetto.dev.")  # fmt: skip
@click.option("--ranks", default="", help="Only these ranks, such as 0,4-7.")
@click.option("--steps", default="", help="Only these steps, such as 50-52.")
@click.option("--window", default="", help="Only this stretch of time, in ms from the first event, such as 120.5-180.")
@shared_options.capture
@shared_options.lang
def run(
    paths: tuple[Path, ...], out: Path, ranks: str, steps: str, window: str, capture: str, lang: str | None
) -> None:
    """Write the timeline of all ranks on one clock, with the critical path, for the Perfetto UI."""
    from hermes.cli.print_output import load_profiles, refuse_inside, show_error

    refuse_inside(out.parent, paths, "the timeline")
    cut = _cut(ranks, steps, window)
    loaded = load_profiles(paths, capture)
    from hermes.profiles.api import timeline
    from hermes.report.perfetto import write_timeline

    shown = timeline(loaded, cut)
    for lack in shown.lacks:
        show_error(HermesError(lack))
    try:
        with out.open("wb") as file:
            count = write_timeline(shown.lanes, shown.curves, file, say=shared_options.teller(lang))
    except OSError as refused:
        raise HermesError(
            f"the timeline cannot be written ({refused.strerror})", where=str(out), hint="give --perfetto another file"
        ) from refused
    show_line(f"{out}: {count} events, {out.stat().st_size / 1e6:.1f} MB")


def _cut(ranks: str, steps: str, window: str) -> TimelineCut:
    from hermes.profiles.api import TimelineCut

    return TimelineCut(
        ranks=shared_options.numbers("--ranks", ranks),
        steps=shared_options.numbers("--steps", steps),
        window_ns=_window(window),
    )


def _window(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = _WINDOW.fullmatch(text.replace(" ", ""))
    if not match or float(match[1]) >= float(match[2]):
        raise InputError(
            f"{text!r} is no stretch of time", where="--window", hint="write two times in ms, like 120.5-180"
        )
    return round(float(match[1]) * 1e6), round(float(match[2]) * 1e6)
