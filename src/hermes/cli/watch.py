"""`hermes watch`: shows running jobs in the terminal, for other programs, and to a webhook."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.end_on_signal import clear_at_end
from hermes.cli import shared_options
from hermes.cli.print_output import show_data, show_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.base.message import Text
    from hermes.jobs.api import JobView, Overview

_PERIOD_S = 0.5


@click.command("watch")
@click.argument("job", required=False, default="")
@click.option("--once", is_flag=True, help="Print the picture once, and end.")
@click.option("--log", is_flag=True, help="Print messages line by line instead of a picture.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "openmetrics"]), default="text",
    help="Output: a picture, or data for programs; with --once one document, else one every 15 seconds.",
)  # fmt: skip
@click.option(
    "--textfile", type=click.Path(path_type=Path, dir_okay=False),
    help="Write metrics to this file every 15 seconds, for the textfile collector of node_exporter.",
)  # fmt: skip
@click.option(
    "--webhook", default="", help="Post alarms and their ends as JSON to this address (https, or http to this host)."
)
@click.option("--webhook-plain", is_flag=True, help="Allow http to other hosts for --webhook.")
@click.option("--preset", default="robust", help="Detector of slow steps: robust or ksigma.")
@click.option("--no-capture", is_flag=True, help="Only watch: another watcher may capture slow steps.")
@click.option("--peak-tflops", type=float, help="Peak of one device in TFLOP/s, for MFU.")
@shared_options.lang
def run(
    job: str, form: str, textfile: Path | None, webhook: str, preset: str, peak_tflops: float | None,
    lang: str | None, *,
    once: bool, log: bool, webhook_plain: bool, no_capture: bool,
) -> None:  # fmt: skip
    """Show running jobs: steps, throughput, where the time goes, alarms, captures and findings.

    JOB is a part of a job's name; by default all your jobs are shown. A job that `hermes run` watches is only shown;
    for any other job, the first watcher also captures slow steps and has them analysed. Events go to the webhook from
    the watcher that acts for the job. The command ends with an interrupt.
    """
    from hermes.jobs.api import Overview, Webhook, request_capture

    peak = peak_tflops * 1e12 if peak_tflops else None
    language = shared_options.language(lang)
    hook = Webhook(webhook, plain=webhook_plain, say=lambda text: _complain(text, language)) if webhook else None
    overview = Overview(
        os.environ, name=job, preset=preset, capture=True, acts=not (no_capture or once), peak_flops=peak,
        say=(lambda text: _print(text, language)) if log else _nothing, noted=hook.put if hook else None,
    )  # fmt: skip
    with ExitStack() as closing:
        if hook is not None:
            closing.enter_context(clear_at_end(hook.close))
        closing.enter_context(clear_at_end(overview.close))
        if once:
            jobs = overview.look()
            _shown(jobs, form, textfile, language)
            if job and not jobs:
                raise request_capture.none_called(job, os.environ)
        elif form == "text" and not log:
            _live(overview, textfile, language)
        else:
            _lines(overview, form, textfile, language)


def _shown(jobs: Sequence[JobView], form: str, textfile: Path | None, language: str) -> None:
    """Print all jobs once, and write the file."""
    from hermes.jobs.api import metrics

    if textfile is not None:
        metrics.write_textfile(textfile, jobs)
    if form == "json":
        show_data(metrics.json_text(jobs))
    elif form == "openmetrics":
        show_data(metrics.openmetrics(jobs), end="")
    else:
        from rich.console import Console

        from hermes.report.running_jobs import draw

        Console().print(draw(jobs, language))


def _lines(overview: Overview, form: str, textfile: Path | None, language: str) -> None:
    from hermes.jobs.api import metrics

    due = 0.0
    while True:
        jobs = overview.look()
        if time.monotonic() >= due:
            due = time.monotonic() + metrics.PERIOD_S
            if form != "text":
                _shown(jobs, form, textfile, language)
            elif textfile is not None:
                metrics.write_textfile(textfile, jobs)
        time.sleep(_PERIOD_S)


def _live(overview: Overview, textfile: Path | None, language: str) -> None:
    from rich.live import Live

    from hermes.jobs.api import metrics
    from hermes.report.running_jobs import draw

    due = 0.0
    with Live(draw((), language), auto_refresh=False) as live:
        while True:
            jobs = overview.look()
            live.update(draw(jobs, language), refresh=True)
            if textfile is not None and time.monotonic() >= due:
                due = time.monotonic() + metrics.PERIOD_S
                metrics.write_textfile(textfile, jobs)
            time.sleep(_PERIOD_S)


def _print(text: Text, language: str) -> None:
    from hermes.base.say import say

    show_line(say(text, language))


def _complain(text: Text, language: str) -> None:
    from hermes.base.say import say

    show_line(f"hermes: {say(text, language)}", to=sys.stderr)


def _nothing(_text: Text) -> None:
    """Print nothing: the picture shows the message."""
