"""`hermes analyze`: profiles in, the answer out."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.base.errors import HermesError, InputError

if TYPE_CHECKING:
    from hermes.report.model import Report


class Format(str, enum.Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def run(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Folders or files with profiles: one rank or many.")
    ],
    form: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder to write report.html and report.json into.")
    ] = None,
    capture: Annotated[
        str, typer.Option(help="Which capture, where a rank has several: part of its name or time.")
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 3 when the input is damaged or doubtful.")] = False,
) -> None:
    """Break down every step of every rank, rank the losses, and say what bounds the step."""
    if out:
        _refuse_inside(out, paths)
    from hermes.cli.show import load_profiles

    loaded = load_profiles(paths, capture)
    from hermes.workflow.analyze import analyze

    report = analyze(loaded)
    written = _write(report, out) if out else []
    if form is Format.TEXT:
        from rich.console import Console

        from hermes.report.text import render_text

        render_text(report, Console(), written=written)
    elif form is Format.JSON:
        from hermes.report.document import to_json

        sys.stdout.write(to_json(report))
    else:
        from hermes.report.html import render_html

        sys.stdout.write(render_html(report))
    if strict and report.degraded:
        raise typer.Exit(3)


def _write(report: Report, out: Path) -> list[str]:
    from hermes.report.document import to_json
    from hermes.report.html import render_html

    written: list[str] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in (("report.html", render_html(report)), ("report.json", to_json(report))):
            (out / name).write_text(text, "utf-8")
            written.append(str(out / name))
    except OSError as refused:
        raise HermesError(
            f"the report cannot be written ({refused.strerror})",
            where=str(refused.filename or out),
            hint="give -o another folder",
        ) from refused
    return written


def _refuse_inside(out: Path, paths: list[Path]) -> None:
    target = out.resolve()
    if target.exists() and not target.is_dir():
        raise InputError(
            "the report goes into a folder, and this is a file", where=str(out), hint="give -o another folder"
        )
    for path in paths:
        root = path.resolve()
        inside = (target == root or root in target.parents) if path.is_dir() else target == root.parent
        if inside:
            raise InputError(
                "the report would be written into the profile",
                where=str(out),
                hint="give -o a folder outside of what is analysed",
            )
