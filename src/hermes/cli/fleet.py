"""`hermes fleet`: checks many hosts, their jobs and their network."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import click

from hermes.cli import fleet_capture, fleet_job, fleet_measure, fleet_report, shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_document


@click.group("fleet")
def run() -> None:
    """Check many hosts together: a job on all of them, each node beside the others, and the network between them."""


@ends({
    Exit.DONE: "no node stands out",
    Exit.NO: "a node is slower than the other nodes, than its chip should be, or than it was before",
    Exit.PARTLY: "too few nodes or too short a history to compare with",
})  # fmt: skip
@click.command("check")
@click.option("--history", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the results of all checks, on a file system that the nodes share.")  # fmt: skip
@click.option("--look", is_flag=True, help="Measure nothing: compare all nodes of the history.")
@click.option("--node", default="", help="Name of this node; by default SLURMD_NODENAME or the host's name.")
@click.option("--disk", type=click.Path(path_type=Path, file_okay=False, exists=True), default=Path("/tmp"),
              help="A folder on the disk to measure.")  # fmt: skip
@click.option("--python", default=sys.executable, show_default="the Python of Hermes", metavar="PATH",
              help="A Python with torch, to measure devices and collectives.")  # fmt: skip
@click.option("--no-devices", is_flag=True, help="Measure only cores, memory and disk.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def check(
    history: Path, node: str, disk: Path, python: str, form: str, lang: str | None, *, look: bool, no_devices: bool
) -> None:
    """Measure this node, add the readings to the history, and say whether the node stands out.

    A scheduler runs the check between jobs, alone on each node: srun -N16 --ntasks-per-node=1 hermes fleet check
    --history /shared/check. Where RANK, WORLD_SIZE and MASTER_ADDR are set, all nodes also measure each other in pairs.
    With --look all nodes are compared, and nothing is measured.
    """
    from hermes.fleet.api import check_node as checks

    if not look:
        node = node or os.environ.get("SLURMD_NODENAME") or platform.node()
        now = time.time_ns()
        readings, notes = checks.measured(
            node, disk, None if no_devices else python, at_ns=now, environment=os.environ
        )  # fmt: skip
        checks.history.write(history, readings)
    else:
        notes = []
    document = checks.judged(history, notes, node=node)
    show_document(document, form, lang)
    if document.facts["slow"]:
        leave(Exit.NO)
    if not document.facts["compared"]:
        leave(Exit.PARTLY)


@ends({
    Exit.DONE: "no host, switch or pair stands out; without --look: this host has called its partners",
    Exit.NO: "with --look, a host, a switch or a pair stands out",
    Exit.PARTLY: "with --look, no host, switch or pair stands out, but some hosts have no results",
})  # fmt: skip
@click.command("probe")
@click.option("--hosts", required=True, type=click.Path(path_type=Path, dir_okay=False),
              help="File of the hosts: lines of NAME ADDRESS [SWITCH].")  # fmt: skip
@click.option("--results", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="A new folder on a file system that the hosts share, for one probe.")  # fmt: skip
@click.option("--me", default="", help="Name of this host; by default SLURMD_NODENAME or the host's name.")
@click.option("--wait", type=click.FloatRange(1, 3600), default=60.0, help="Seconds to wait for the other hosts.")
@click.option("--look", is_flag=True, help="Call no host: judge the results of all hosts.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def probe(hosts: Path, results: Path, me: str, wait: float, form: str, lang: str | None, *, look: bool) -> None:
    """Measure the network between hosts, and name the host, link or switch that is slow, late or loses data.

    Run the probe on all hosts at once: srun -N16 --ntasks-per-node=1 hermes fleet probe --hosts hosts.txt --results
    /shared/probe1. Each host calls a few others by UDP and TCP on port 8657, and answers only hosts that can read the
    folder. Then run the probe with --look.
    """
    from hermes.fleet.api import host_pairs, probe

    known = host_pairs.read_hosts(hosts)
    if look:
        document = probe.judged(known, results)
    else:
        me = me or os.environ.get("SLURMD_NODENAME") or platform.node()
        document = probe.run_part_of_host(known, results, me, wait_s=wait)
    show_document(document, form, lang)
    if document.facts["named"]:
        leave(Exit.NO)
    if document.facts["absent"]:
        leave(Exit.PARTLY)


for _command in (
    fleet_job.status,
    fleet_job.watch,
    fleet_capture.profile,
    fleet_job.stacks,
    fleet_capture.stop,
    fleet_measure.measure,
    fleet_measure.host,
    fleet_report.report,
    check,
    probe,
):
    run.add_command(_command)
