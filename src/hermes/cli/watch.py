"""`hermes watch`: running jobs in the terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hermes.workflow.overview import Overview


@click.command("watch")
@click.argument("job", required=False, default="")
@click.option("--once", is_flag=True, help="Print the picture once, and end.")
@click.option("--log", is_flag=True, help="Print what is noticed line by line instead of a picture.")
@click.option("--preset", default="robust", help="How slow steps are noticed: robust or ksigma.")
@click.option("--no-capture", is_flag=True, help="Only look on: another watcher may capture slow steps.")
@click.option("--peak-tflops", type=float, help="Peak of one device in TFLOP/s, for MFU.")
def run(job: str, preset: str, peak_tflops: float | None, *, once: bool, log: bool, no_capture: bool) -> None:
    """Show running jobs: steps, throughput, where the time goes, alarms, captures and findings.

    JOB is a part of a name; all jobs of yours without it. A job that `hermes run` looks after is only shown; of any
    other the first watcher also captures slow steps and has them analysed. Ends with an interrupt.
    """
    from hermes.workflow.overview import Overview

    peak = peak_tflops * 1e12 if peak_tflops else None
    say = _print if log else _nothing
    overview = Overview(os.environ, name=job, preset=preset, capture=True, acts=not (no_capture or once),
                        peak_flops=peak, say=say)  # fmt: skip
    try:
        if once:
            _once(overview)
        elif log:
            _log(overview)
        else:
            _live(overview)
    except KeyboardInterrupt:
        sys.exit(0)
    finally:
        overview.close()


def _once(overview: Overview) -> None:
    from rich.console import Console

    from hermes.report.live import draw

    Console().print(draw(overview.look()))


def _log(overview: Overview) -> None:
    while True:
        overview.look()
        time.sleep(0.5)


def _live(overview: Overview) -> None:
    from rich.live import Live

    from hermes.report.live import draw

    with Live(draw(()), auto_refresh=False) as live:
        while True:
            live.update(draw(overview.look()), refresh=True)
            time.sleep(0.5)


def _print(text: str) -> None:
    from hermes.cli.show import plain

    print(plain(text), flush=True)


def _nothing(_text: str) -> None:
    """The picture shows it."""
