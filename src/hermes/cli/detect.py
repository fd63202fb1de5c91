"""`hermes detect`: replays a step log through a detector of slow steps."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hermes.cli import shared_options
from hermes.cli.print_output import show_document


@click.command("detect")
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@click.option("--preset", default="robust", help="Detector of slow steps: robust, or ksigma with its PERF_* variables.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def run(log: Path, preset: str, form: str, lang: str | None) -> None:
    """Say when the steps of a log became slower, and why, as far as counters show.

    LOG is a step log, a run directory, the name of a job, or a perf_*.log that torch_npu or MindSpore wrote.
    """
    from hermes.jobs.api import detect_in, detection_document

    found = detect_in(log, preset=preset, environment=os.environ)
    show_document(detection_document.document(found), form, lang)
