"""`hermes stacks`: shows where the ranks of a running job stand."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import click

from hermes.cli import shared_options
from hermes.cli.print_output import show_data, show_line, show_lines

if TYPE_CHECKING:
    from hermes.base.message import Message
    from hermes.jobs.api import rank_positions


@click.command("stacks")
@click.argument("job", required=False, default="")
@click.option("--whole", is_flag=True, help="Print the stacks of all threads too.")
@click.option("--ended", is_flag=True,
              help="Print as JSON the stacks of the latest job that ended while it stood still.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def run(job: str, form: str, lang: str | None, *, whole: bool, ended: bool) -> None:
    """Say where each rank stands: its current collective, and the line of the job's own code.

    JOB is the job's name or a part of it; not needed when only one job runs. The job goes on. Stacks come from Python's
    own handler in each rank, else from py-spy if it is installed and allowed.
    """
    from hermes.inside.wire.rundir import default_root
    from hermes.jobs.api import rank_positions, request_capture, saved_hang

    if ended:
        show_data(json.dumps(saved_hang.latest_hang(default_root(os.environ), job, time.time_ns())))
        return
    found = request_capture.find_job(job, os.environ)
    now_ns = time.time_ns()
    ranks = rank_positions.positions_of_ranks(found, now_ns)
    if form == "json":
        show_data(json.dumps(rank_positions.document(found, ranks, now_ns), separators=(",", ":")))
        return
    tell = shared_options.teller(lang)
    for one in ranks:
        show_line(tell(_said(one)))
        if whole:
            show_lines(one.stack)


def _said(one: rank_positions.RankPosition) -> Message:
    from hermes.jobs.api import capture_messages, messages

    if not one.progress.alive:
        return capture_messages.no_stack(rank=one.rank, why=capture_messages.ENDED)
    if one.place is None:
        return capture_messages.no_stack(rank=one.rank, why=capture_messages.NOT_ASKED)
    return messages.stands(ranks=[one.rank], line=one.place.line, collective=one.place.collective)
