"""`hermes fleet status`, `watch` and `stacks`: show one job on many hosts."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.fleet_hosts import hosts, with_hosts
from hermes.cli.print_output import show_data, show_document, show_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text as RichText

    from hermes.base.message import Text
    from hermes.fleet.api import HostChoice, JobsPicture, Transport
    from hermes.model.document import Document

job_name = click.argument("job", required=False, default="")


@ends({
    Exit.DONE: "no job and no rank stands out, and every host has answered",
    Exit.NO: "a job makes no progress, a rank is a straggler, or a host raised an alarm",
    Exit.PARTLY: "no job and no rank stands out, but some hosts have not answered; the output names them first",
})  # fmt: skip
@click.command("status")
@job_name
@click.option("--prometheus", default="", metavar="URL",
              help="Read a Prometheus that scrapes the hosts' exporters, and contact no host.")  # fmt: skip
@hosts
def status(
    job: str, prometheus: str, places: HostChoice, program: tuple[str, ...], within: float, form: str, lang: str | None
) -> None:
    """Show all ranks of all hosts once, slowest first, and the hosts without an answer.

    Each host runs `hermes watch --once` as the account that reaches it. JOB is a part of the job's name: without it,
    all jobs of these hosts are shown, or with --slurm the jobs of that number. For a job that makes no progress, the
    command also collects the stacks, as `hermes fleet stacks` does. For a straggler, the command reads the state of its
    host (`hermes fleet host`).
    """

    async def use(transport: Transport | None) -> Document:
        return (await _look(transport, prometheus, places, program, job, within))[1]

    document = with_hosts(places, use, instead=prometheus)
    show_document(document, form, lang)
    if document.facts["stands_out"]:
        leave(Exit.NO)
    if document.facts["silent"]:
        leave(Exit.PARTLY)


@click.command("watch")
@job_name
@click.option("--every", type=click.FloatRange(0.5, 3600), default=5.0, show_default=True,
              help="Seconds between two pictures.")  # fmt: skip
@click.option("--prometheus", default="", metavar="URL",
              help="Read a Prometheus that scrapes the hosts' exporters, and contact no host.")  # fmt: skip
@click.option("--capture", is_flag=True,
              help="Capture the same steps on the hosts of a job that is slow or has a straggler.")  # fmt: skip
@click.option("--ranks", default="worst,median", show_default=True, metavar="LIST",
              help="Ranks that --capture records, written as for hermes fleet profile.")  # fmt: skip
@hosts
def watch(
    job: str, prometheus: str, ranks: str, places: HostChoice, program: tuple[str, ...], within: float, every: float,
    form: str, lang: str | None, *, capture: bool,
) -> None:  # fmt: skip
    """Show all ranks of all hosts again and again, until an interrupt.

    A host keeps its SSH connection. With --format json each picture is one document in a line of its own, and so is
    each capture. Captures count over the whole job: three at once, and one more every eight hours. Start such jobs with
    hermes run --no-capture, or each host also captures by itself.
    """
    if capture and prometheus:
        raise click.UsageError("--capture asks the hosts, and --prometheus asks none")

    async def use(transport: Transport | None) -> None:
        from hermes.fleet.api import automatic_capture
        from hermes.fleet.api import capture_on_hosts as captures

        shown = _Json() if form == "json" else _Live(lang)
        wish = captures.HostsCaptureWish(ranks=ranks)
        making = (
            automatic_capture.Automatic(transport, program, wish, within, sayer(lang), time.time_ns)
            if capture and transport is not None else None
        )  # fmt: skip
        with shown:
            while True:
                picture, found = await _look(transport, prometheus, places, program, job, within)
                shown.draw(found)
                for one in await making.look(picture) if making is not None else ():
                    shown.keep(one)
                await asyncio.sleep(every)

    with_hosts(places, use, instead=prometheus)


@ends({
    Exit.DONE: "ranks make progress, or the cause of the standstill is not found",
    Exit.NO: "no rank makes progress, and the output names what the ranks wait for",
    Exit.PARTLY: "no cause is found, and some hosts have not answered; the output names them first",
})  # fmt: skip
@click.command("stacks")
@job_name
@hosts
def stacks(job: str, places: HostChoice, program: tuple[str, ...], within: float, form: str, lang: str | None) -> None:
    """Say where each rank of a job without progress stands, and which ranks did not enter the collective.

    Each host runs `hermes stacks`: the collective that a rank waits in, and the line of the job's own code. If no such
    job runs, the answer is about the latest job that ended while it stood still, as its watchers saw it.
    """

    async def use(transport: Transport | None) -> Document:
        from hermes.fleet.api import stacks, status

        assert transport is not None
        name = job or places.launch
        picture = await status.look(transport, where=places.where, hermes=program, name=name, within_s=within)
        return stacks.document(await stacks.ask(transport, program, picture, within, name))

    document = with_hosts(places, use)
    show_document(document, form, lang)
    if document.facts["named"]:
        leave(Exit.NO)
    if document.facts["silent"]:
        leave(Exit.PARTLY)


async def _look(
    transport: Transport | None, prometheus: str, places: HostChoice, program: tuple[str, ...], job: str,
    within_s: float
) -> tuple[JobsPicture, Document]:  # fmt: skip
    from hermes.fleet.api import stacks, status, straggler_host
    from hermes.fleet.api import status_from_prometheus as by_prometheus

    if transport is None:
        picture = await asyncio.to_thread(by_prometheus.ranks_from_prometheus, prometheus, job, within_s)
        return picture, status.document(picture)
    picture = await status.look(
        transport, where=places.where, hermes=program, name=job or places.launch, within_s=within_s
    )  # fmt: skip
    late = status.stragglers_of(picture)
    why = await stacks.why_still(transport, program, picture, within_s)
    return picture, status.document(picture, [*why, *await straggler_host.on_hosts(transport, program, late, within_s)])


def sayer(lang: str | None) -> Callable[[Text], None]:
    """A function that prints progress messages, each as a line on stderr."""
    tell = shared_options.teller(lang)
    return lambda text: show_line(tell(text), to=sys.stderr)


class _Json:
    """A printer of documents, one in a line."""

    def __enter__(self) -> _Json:
        return self

    def __exit__(self, *_: object) -> None:
        """Restore nothing: the printer changes nothing in the terminal."""

    def draw(self, document: Document) -> None:
        """Print a document as one line of JSON."""
        import json

        from hermes.report.document_json import document_json

        show_data(json.dumps(json.loads(document_json(document)), separators=(",", ":")))

    def keep(self, document: Document) -> None:
        """Print a document that stays, such as a capture."""
        self.draw(document)


class _Live:
    """A printer that draws each picture over the one before."""

    def __init__(self, lang: str | None) -> None:
        from rich.live import Live

        self._language = shared_options.language(lang)
        self._live = Live(auto_refresh=False)

    def __enter__(self) -> _Live:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, document: Document) -> None:
        """Draw a picture over the last one."""
        self._live.update(self._text(document), refresh=True)

    def keep(self, document: Document) -> None:
        """Print a document that stays above the picture."""
        self._live.console.print(self._text(document))

    def _text(self, document: Document) -> RichText:
        from rich.text import Text

        from hermes.report.document_text import document_lines

        return Text.from_ansi(document_lines(document, self._live.console.width, self._language))
