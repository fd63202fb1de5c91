"""`hermes thresholds`: shows and changes when the preset `ksigma` calls a running job slow."""

from __future__ import annotations

import os

import click

from hermes.cli import options
from hermes.cli.show import show_line


@click.command("thresholds")
@click.argument("job", required=False, default="")
@click.option("--ksigma", type=float, help="Deviations above the mean from which on a step is a spike.")
@click.option("--min-consec", type=int, help="Spikes in a row that are an alarm.")
def run(job: str, ksigma: float | None, min_consec: int | None) -> None:
    """Change thresholds of the preset `ksigma` while a job runs; without options, show them.

    JOB is its name or a part of it; not needed when only one job runs. Who watches the job takes them up at its next
    look: the count of spikes in a row begins anew, the baseline stays.
    """
    from hermes.jobs.api import captures, messages
    from hermes.jobs.api import change_alarm_thresholds as thresholds

    found = captures.find_job(job, os.environ)
    wanted = thresholds.Thresholds(k=ksigma, consecutive=min_consec)
    asked = wanted != thresholds.Thresholds()
    now = thresholds.write(found, wanted) if asked else thresholds.read(found)
    show_line(options.teller(None)(messages.of_job(job=found.id, said=now.message())))
