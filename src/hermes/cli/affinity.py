"""`hermes affinity`: plans which cores each rank should run on."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_document


@ends({Exit.NO: "a thread was not moved", Exit.UNUSABLE: "there is no device, or no process to move"})
@click.command("affinity")
@click.option("--apply", "do_apply", is_flag=True, help="Move every thread of the ranks to their cores now.")
@click.option("--restore", "do_restore", is_flag=True, help="Give the threads the cores that they had before.")
@click.option(
    "--pid",
    "pids",
    multiple=True,
    metavar="DEVICE=PID",
    help="Process of a device, if the vendor's tool does not name it.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@shared_options.lang
def run(do_apply: bool, do_restore: bool, pids: tuple[str, ...], form: str, lang: str | None) -> None:
    """Plan the cores of each rank from npu-smi or nvidia-smi, NUMA nodes, SMT and cgroup limits.

    Without --apply nothing is changed: the plan is printed, with the lines for numactl and torch_npu.
    """
    from hermes.migrate import api

    if do_apply and do_restore:
        raise click.UsageError("--apply and --restore exclude each other")
    state = api.affinity_state(os.environ, Path.home())
    if not (do_apply or do_restore):
        show_document(api.plan_document(api.plan_affinity()), form, lang, whole=True)
        return
    done = api.restore_affinity(state) if do_restore else api.apply_affinity(api.plan_affinity(), api.pids(pids), state)
    show_document(api.bound_document(done), form, lang, whole=True)
    leave(Exit.NO if any(one.failed for one in done) else Exit.DONE)
