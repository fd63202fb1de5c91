"""`hermes analyze`: reads profiles and prints what bounds the step."""

from __future__ import annotations

import contextlib
import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.errors import InputError
from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_data, write_files

if TYPE_CHECKING:
    from hermes.model.report import Report
    from hermes.report.localized_texts import Tell


class Format(str, enum.Enum):
    """The output formats of `hermes analyze`."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    XLSX = "xlsx"


@ends({Exit.PARTLY: "with --strict: the input is damaged or doubtful"})
@click.command("analyze")
@shared_options.profiles
@click.option(
    "--format",
    "form",
    type=click.Choice(Format, case_sensitive=False),
    default=Format.TEXT,
    help="Format of the output; a spreadsheet (xlsx) goes into the folder of -o, or by > into a file.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder to write report.html and report.json into.")
@shared_options.capture
@click.option("--ranks", default="", metavar="LIST", help="Only these ranks, such as 0,4-7.")
@click.option("--steps", default="", metavar="LIST", help="Only these steps, such as 50-52.")
@click.option(
    "--engine",
    default="",
    metavar="NAME",
    help="Engine that reads the ranks: serial, processes (from four ranks on), ray, or ray://HOST:PORT.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Number of single-threaded processes, or of threads of this process; by default one a core.",
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help="Language of the text and of report.html; by default the locale's.",
)
@click.option("--lab", is_flag=True, help="Also run the rules that no public capture shows right yet.")
@click.option("--full", is_flag=True, help="Print the whole report as text, not only its first screen.")
@click.option("--open", "opens", is_flag=True, help="Show the report in the browser, as `hermes serve` does.")
@click.option("--strict", is_flag=True, help="Exit 3 when the input is damaged or doubtful.")
def run(
    paths: tuple[Path | str, ...],
    form: Format,
    out: Path | None,
    capture: str,
    ranks: str,
    steps: str,
    engine: str,
    jobs: int | None,
    lang: str | None,
    *,
    lab: bool,
    full: bool,
    opens: bool,
    strict: bool,
) -> None:
    """Break down every step of every rank, rank the losses, and say what bounds the step."""
    from hermes.cli.print_output import load_profiles, refuse_inside

    if form is Format.XLSX and not out and sys.stdout.isatty():
        raise InputError("a spreadsheet is no text for a terminal", where="--format xlsx", hint="add -o FOLDER")
    if out:
        if out.exists() and not out.is_dir():
            raise InputError(
                "the report goes into a folder, and this is a file", where=str(out), hint="give -o another folder"
            )
        refuse_inside(out, paths, "the report")

    from hermes.profiles.api import engine_of

    only, kept = shared_options.numbers("--ranks", ranks), shared_options.numbers("--steps", steps)
    with engine_of(engine, jobs) as chosen:
        loaded = load_profiles(
            paths, capture, meanwhile=_import_the_rest, engine=chosen, ranks=only, steps=kept, lacks="in the answer"
        )
        from hermes.profiles.api import analyze

        report = analyze(loaded, engine=chosen, lab=lab)
    from hermes.report.chinese_sentences import language
    from hermes.report.localized_texts import teller

    spoken = lang or language()
    written = write_report(report, out, spoken, sheets=form is Format.XLSX) if out else []
    if form is Format.TEXT or (form is Format.XLSX and out):
        _print_text(report, paths, written, teller(spoken), full=full)
    elif form is Format.JSON:
        from hermes.report.report_json import to_json

        show_data(to_json(report), end="")
    elif form is Format.XLSX:
        from hermes.report.spreadsheet import spreadsheet

        sys.stdout.buffer.write(spreadsheet(report, spoken))
    else:
        from hermes.report.html import render_html

        show_data(render_html(report, spoken), end="")
    if opens:
        from hermes.cli.serve import serve

        sys.stdout.flush()
        serve([path for path in paths if isinstance(path, Path)], opens=True, known=(loaded, report))
    if strict and report.degraded:
        leave(Exit.PARTLY)


def _print_text(report: Report, paths: tuple[Path | str, ...], written: list[str], tell: Tell, *, full: bool) -> None:
    """Print the first screen of a report, or all of its text."""
    from rich.console import Console

    if full:
        from hermes.report.text import render_text

        render_text(report, Console(), written=written, tell=tell)
    else:
        from hermes.report.first_screen import render_first_screen

        render_first_screen(report, Console(), paths=[str(path) for path in paths], written=written, tell=tell)


def _import_the_rest() -> None:
    """Import modules needed after the reading; a failed import fails again where it is needed, and is reported
    there."""
    with contextlib.suppress(ImportError):
        from hermes.base import say
        from hermes.profiles.api import prepare
        from hermes.report.html import template

        say.prepare()
        prepare()
        template()
        import rich.console  # noqa: F401 - it is to be loaded

        import hermes.report.first_screen  # noqa: F401 - so is this


def write_report(report: Report, out: Path, language: str, *, sheets: bool = False) -> list[str]:
    """Write the report into a folder; returns the paths of the files. Raises `HermesError` if that is not possible."""
    from hermes.report.html import render_html
    from hermes.report.report_json import to_json

    files = {"report.html": render_html(report, language).encode(), "report.json": to_json(report).encode()}
    if sheets:
        from hermes.report.spreadsheet import spreadsheet

        files["report.xlsx"] = spreadsheet(report, language)
    return write_files(files, out)
