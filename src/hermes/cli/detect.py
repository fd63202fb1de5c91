"""`hermes detect`: replays a step log through a detector."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hermes.cli import options
from hermes.cli.show import show_document


@click.command("detect")
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
@click.option("--preset", default="robust", help="robust, or ksigma with its PERF_* variables.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="What to print.")
@options.lang
def run(log: Path, preset: str, form: str, lang: str | None) -> None:
    """Say when the steps of a log became slower, and why, as far as counters tell.

    LOG is a step log, a run directory, the name of a job, or a perf_*.log that torch_npu or MindSpore wrote.
    """
    from hermes.jobs.api import detect_in, detection_document

    found = detect_in(log, preset=preset, environment=os.environ)
    show_document(detection_document.document(found), form, lang)
