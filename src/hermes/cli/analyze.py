"""`hermes analyze`: profiles in, the answer out."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from hermes.base.errors import InputError


class Format(str, enum.Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def run(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Folders or files with profiles: one rank or many.")],
    form: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TEXT,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to write report.html and report.json into.")] = None,
    capture: Annotated[str, typer.Option(help="Which capture, where a rank has several: part of its name or time.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 3 when the input is incomplete or doubtful.")] = False,
) -> None:
    """Break down every step of every rank, rank the losses, and say what bounds the step."""
    if out:
        _refuse_inside(out, paths)
    from hermes.cli.show import open_cache
    from hermes.workflow.analyze import analyze
    from hermes.workflow.load import load

    report = analyze(load(paths, open_cache(), capture=capture))
    written: list[str] = []
    if out:
        from hermes.report.document import to_json
        from hermes.report.html import render_html

        out.mkdir(parents=True, exist_ok=True)
        for name, text in (("report.html", render_html(report)), ("report.json", to_json(report))):
            (out / name).write_text(text, "utf-8")
            written.append(str(out / name))
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


def _refuse_inside(out: Path, paths: list[Path]) -> None:
    target = out.resolve()
    for path in paths:
        root = path.resolve()
        if path.is_dir() and (target == root or root in target.parents):
            raise InputError(
                "the report would be written into the profile", where=str(out), hint="give -o a folder outside of what is analysed"
            )
