"""`hermes fleet profile` and `stop`: make or stop one capture of a job on many hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.fleet_hosts import hosts, with_hosts
from hermes.cli.fleet_job import job_name, sayer
from hermes.cli.print_output import show_document

if TYPE_CHECKING:
    from hermes.fleet.api import HostChoice, Transport
    from hermes.model.document import Document


@ends({
    Exit.DONE: "every requested rank has its trace, and every host its report",
    Exit.PARTLY: "a trace or a report is missing, or nothing was captured; the reasons stand first",
})  # fmt: skip
@click.command("profile")
@job_name
@click.option("--ranks", default="", metavar="LIST",
              help="Ranks to capture, such as worst,median,0-7; by default all.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1, 100), default=2, show_default=True, help="Number of steps to capture.")
@click.option("--level", type=click.Choice(["light", "standard", "full"]), default="standard", show_default=True,
              help="Level of detail of the capture.")  # fmt: skip
@click.option("--memory", is_flag=True, help="Record memory allocations too.")
@click.option(
    "--stack/--no-stack",
    default=None,
    help="Record Python stacks, or leave them out; by default `hermes profile` decides.",
)
@click.option("--no-analysis", is_flag=True, help="Let the hosts only capture, without an analysis.")
@click.option("-o", "--out", type=click.Path(path_type=Path, file_okay=False),
              help="Folder on this host for report.html and report.json of all ranks.")  # fmt: skip
@hosts
def profile(
    job: str, ranks: str, steps: int, level: str, out: Path | None, places: HostChoice, program: tuple[str, ...],
    within: float, form: str, lang: str | None, *, memory: bool, stack: bool | None, no_analysis: bool,
) -> None:  # fmt: skip
    """Record the same steps of a job on many hosts, and analyse the captures on their hosts.

    All hosts report the steps of their ranks, and then get the number of a later step. If a rank does not accept, the
    capture is ended on all hosts. Each host analyses its ranks, and traces stay on their hosts. The hosts' measurements
    become one report of all ranks on this host, equal to `hermes analyze` of all traces in one place.
    """
    from hermes.cli.shared_options import language
    from hermes.fleet.api import capture_on_hosts, capture_report, status

    words = (*(("--memory",) if memory else ()), *(() if stack is None else ("--stack" if stack else "--no-stack",)))
    wish = capture_on_hosts.HostsCaptureWish(
        ranks=ranks, steps=steps, level=level, words=words, analyzes=not no_analysis
    )

    async def use(transport: Transport | None) -> Document:
        assert transport is not None
        picture = await status.look(
            transport, where=places.where, hermes=program, name=job or places.launch, within_s=within
        )  # fmt: skip
        made = await capture_on_hosts.Capturing(transport, program, wish, within, sayer(lang)).run(picture)
        written: list[str] = []
        if out is not None and made.reduced.report is not None:
            from hermes.cli.analyze import write_report

            written = write_report(made.reduced.report, out, language(lang))
        return capture_report.document(made, picture, written)

    document = with_hosts(places, use)
    show_document(document, form, lang)
    leave(Exit.DONE if document.facts["whole"] else Exit.PARTLY)


@ends({
    Exit.DONE: "no capture is under way any more on any host",
    Exit.PARTLY: "some hosts have not answered; the output names them first",
})  # fmt: skip
@click.command("stop")
@job_name
@hosts
def stop(job: str, places: HostChoice, program: tuple[str, ...], within: float, form: str, lang: str | None) -> None:
    """End the waiting or running captures of a job on all hosts; the job goes on.

    The steps recorded so far are dropped.
    """
    from hermes.fleet.api import capture_on_hosts, capture_report, status

    async def use(transport: Transport | None) -> Document:
        assert transport is not None
        picture = await status.look(
            transport, where=places.where, hermes=program, name=job or places.launch, within_s=within
        )  # fmt: skip
        count, silent = await capture_on_hosts.ended(transport, program, picture, within)
        return capture_report.stopped(picture, silent, count)

    document = with_hosts(places, use)
    show_document(document, form, lang)
    leave(Exit.PARTLY if document.facts["silent"] else Exit.DONE)
