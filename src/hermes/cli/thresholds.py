"""`hermes thresholds`: shows and changes the limits at which the preset `ksigma` calls a running job slow."""

from __future__ import annotations

import os

import click

from hermes.cli import shared_options
from hermes.cli.print_output import show_line


@click.command("thresholds")
@click.argument("job", required=False, default="")
@click.option("--ksigma", type=float, help="Deviations above the mean from which on a step counts as a spike.")
@click.option("--min-consec", type=int, help="Number of spikes in a row that raise an alarm.")
def run(job: str, ksigma: float | None, min_consec: int | None) -> None:
    """Change thresholds of the preset `ksigma` while a job runs; without options, show them.

    JOB is the job's name or a part of it; not needed when only one job runs. The job's watcher uses the new thresholds
    from its next look on: the count of spikes in a row begins anew, the baseline stays.
    """
    from hermes.jobs.api import change_alarm_thresholds as thresholds
    from hermes.jobs.api import messages, request_capture

    found = request_capture.find_job(job, os.environ)
    wanted = thresholds.Thresholds(k=ksigma, consecutive=min_consec)
    asked = wanted != thresholds.Thresholds()
    now = thresholds.write(found, wanted) if asked else thresholds.read(found)
    show_line(shared_options.teller(None)(messages.of_job(job=found.id, said=now.message())))
