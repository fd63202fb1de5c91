"""`hermes run`: starts a training that is watched, with no change to its code."""

from __future__ import annotations

import os
import sys

import click


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.option("--name", default="", help="Name of the job; the script's without it.")
@click.option("--preset", default="robust", help="How slow steps are noticed: robust or ksigma.")
@click.option("--no-capture", is_flag=True, help="Notice slow steps, but record no profile by itself.")
@click.option("--no-watch", is_flag=True, help="Only count steps; `hermes watch` can look on from elsewhere.")
@click.option("--collectives", is_flag=True, help="Time the calls of torch.distributed too; not with torch.compile.")
@click.option("--flops-per-step", type=click.IntRange(1), help="FLOPs of the model in a step of one rank, for MFU.")
@click.option("--count-flops", is_flag=True, help="Count these FLOPs in two early steps, which take longer for it.")
@click.option("--device-events", is_flag=True, help="Time steps on the GPU or NPU by its own events.")
@click.option("--transfers", is_flag=True, help="Time the calls that copy tensors from the processor to a device.")
def run(
    command: tuple[str, ...], name: str, preset: str, flops_per_step: int | None, *,
    no_capture: bool, no_watch: bool, collectives: bool, count_flops: bool, device_events: bool, transfers: bool,
) -> None:  # fmt: skip
    """Run a training, such as `python train.py …` or `torchrun --nproc-per-node 2 train.py …`, and watch its steps.

    Its exit code is the command's. When the command ends, a line says where its logs and captures are.
    """
    from hermes.workflow import launch
    from hermes.workflow.watch import Watcher

    environment = dict(os.environ)
    if collectives:
        environment["HERMES_COLLECTIVES"] = "1"
    if device_events:
        environment["HERMES_DEVICE_EVENTS"] = "1"
    if transfers:
        environment["HERMES_TRANSFERS"] = "1"
    if count_flops:
        environment["HERMES_COUNT_FLOPS"] = "1"
    if flops_per_step:
        environment["HERMES_FLOPS_PER_STEP"] = str(flops_per_step)
    job = launch.make_job(command, name, environment)
    if doubt := launch.doubts(command):
        print(f"hermes: {doubt}", file=sys.stderr)
    watcher = Watcher(job, preset=preset, environment=environment, capture=not no_capture, say=_say)
    watch = _nothing if no_watch else watcher.look_safely
    try:
        code = launch.supervise(command, job, environment, watch=watch, pause_s=0.5)
        if not no_watch:
            watcher.close()
    finally:
        launch.end(job)
    _say(f"run directory: {job.folder}")
    sys.exit(code)


def _nothing() -> None:
    """Looks at nothing."""


def _say(text: str) -> None:
    from hermes.cli.show import plain

    print(f"hermes: {plain(text)}", file=sys.stderr, flush=True)
