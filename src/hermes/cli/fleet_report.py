"""`hermes fleet report`: reports how much time the jobs of a week lost, to which causes, on which ranks."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.errors import InputError
from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_document, write_files

if TYPE_CHECKING:
    from hermes.model.document import Document

_SPAN = re.compile(r"(\d{1,4})([mhdw])")
_UNITS_S = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@ends({
    Exit.DONE: "the whole input could be read",
    Exit.PARTLY: "parts of the input could not be read; the output names them first",
})  # fmt: skip
@click.command("report")
@click.argument("folders", nargs=-1, metavar="[FOLDER]…", type=click.Path(path_type=Path))
@click.option("--prometheus", default="", metavar="URL",
              help="Instead of folders, read a Prometheus that scrapes the hosts' exporters.")  # fmt: skip
@click.option(
    "--since", default="7d", show_default=True, help="Period of the report, up to now, such as 30m, 12h, 7d or 2w."
)
@click.option("-o", "--out", type=click.Path(path_type=Path, file_okay=False),
              help="Folder to write fleet.html and fleet.json into.")  # fmt: skip
@click.option("--within", type=click.FloatRange(1, 3600), default=60.0, show_default=True,
              help="Seconds to wait for an answer of the Prometheus.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def report(
    folders: tuple[Path, ...], prometheus: str, since: str, out: Path | None, within: float, form: str,
    lang: str | None,
) -> None:  # fmt: skip
    """Say how much time the jobs of a week lost, to which causes, on which ranks: steps, alarms, stragglers, captures,
    findings.

    FOLDER is a run directory or a folder of run directories, of this host or copied from others; by default the run
    directories of this account (HERMES_RUN_DIR).
    """
    from hermes.fleet.api import report as reports

    until_ns = time.time_ns()
    since_ns = until_ns - _span_s(since) * 10**9
    if prometheus:
        if folders:
            raise InputError(reports.messages.SEVERAL_INPUTS, where="--prometheus", hint=reports.messages.DO_ONE_INPUT)
        document = reports.by_prometheus(prometheus, since_ns, until_ns, within)
    else:
        document = reports.by_folders(folders, os.environ, since_ns, until_ns)
    if out is not None:
        _write(document, out, shared_options.language(lang))
    show_document(document, form, lang)
    if any(one.level == "degraded" for one in document.coverage):
        leave(Exit.PARTLY)


def _span_s(text: str) -> int:
    from hermes.fleet.api import report as reports

    found = _SPAN.fullmatch(text)
    if found is None or not int(found[1]):
        raise InputError(
            reports.messages.no_since(text=text[:40]), where="--since", hint=reports.messages.DO_SINCE
        )  # fmt: skip
    return int(found[1]) * _UNITS_S[found[2]]


def _write(document: Document, out: Path, language: str) -> None:
    from hermes.report.document_html import document_html
    from hermes.report.document_json import document_json

    page, values = document_html(document, language), document_json(document)
    write_files({"fleet.html": page.encode(), "fleet.json": values.encode()}, out)
