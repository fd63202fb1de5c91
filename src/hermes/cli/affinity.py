"""`hermes affinity`: which cores each rank should run on."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from hermes.base.errors import InputError
from hermes.cli.show import show_data, show_lines


@click.command("affinity")
@click.option("--apply", "do_apply", is_flag=True, help="Move every thread of the ranks to their cores now.")
@click.option("--restore", "do_restore", is_flag=True, help="Give the threads the cores that they had before.")
@click.option(
    "--pid", "pids", multiple=True, metavar="DEVICE=PID", help="The process of a device; else the tools say it."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="What to print.")
def run(do_apply: bool, do_restore: bool, pids: tuple[str, ...], form: str) -> None:
    """Plan the cores of each rank from npu-smi or nvidia-smi, NUMA nodes, SMT and cgroup limits.

    Without --apply nothing is changed: the plan is printed, with the lines for taskset, numactl and torch_npu.
    """
    from hermes.migrate import api

    if do_apply and do_restore:
        raise click.UsageError("--apply and --restore exclude each other")
    state = api.affinity_state(os.environ, Path.home())
    if do_restore:
        done = api.restore_affinity(state)
        show_lines("\n".join(api.bound_text(done)))
        sys.exit(1 if any(one.failed for one in done) else 0)
    plan = api.plan_affinity()
    if do_apply:
        done = api.apply_affinity(plan, _pids(pids), state)
        show_lines("\n".join(api.bound_text(done)))
        sys.exit(1 if any(one.failed for one in done) else 0)
    document = api.plan_document(plan)
    if form == "json":
        show_data(json.dumps(document, indent=1))
    else:
        show_lines("\n".join(api.plan_text(plan)))


def _pids(given: tuple[str, ...]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one in given:
        device, _, pid = one.partition("=")
        if not (device.isdigit() and pid.isdigit()):
            raise InputError(f"{one!r} names no device and process", hint="--pid 0=12345")
        found.setdefault(int(device), []).append(int(pid))
    return found
