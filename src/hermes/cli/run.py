"""`hermes run`: starts a training that is watched, with no change to its code."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import click

_WATCHER = "from hermes.cli.run import watch; watch()"


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.option("--name", default="", help="Name of the job; the script's without it.")
@click.option("--preset", type=click.Choice(["robust", "ksigma"]), default="robust", help="How slow steps are noticed.")
@click.option("--no-capture", is_flag=True, help="Notice slow steps, but record no profile by itself.")
@click.option("--no-watch", is_flag=True, help="Only count steps; `hermes watch` can look on from elsewhere.")
@click.option("--collectives", is_flag=True, help="Time the calls of torch.distributed too; not with torch.compile.")
@click.option("--flops-per-step", type=click.IntRange(1), help="FLOPs of the model in a step of one rank, for MFU.")
@click.option("--count-flops", is_flag=True, help="Count these FLOPs in two early steps, which take longer for it.")
@click.option("--device-events", is_flag=True, help="Time steps on the device by its own events.")
@click.option(
    "--snapshot", metavar="OUT.zip", type=click.Path(path_type=Path, dir_okay=False),
    help="Write how the run is set up, for `hermes precision check`.",
)  # fmt: skip
@click.option("--transfers", is_flag=True, help="Time the calls that copy tensors from the processor to a device.")
def run(
    command: tuple[str, ...], name: str, preset: str, flops_per_step: int | None, snapshot: Path | None, *,
    no_capture: bool, no_watch: bool, collectives: bool, count_flops: bool, device_events: bool, transfers: bool,
) -> None:  # fmt: skip
    """Run a training, such as `python train.py …` or `torchrun --nproc-per-node 2 train.py …`, and watch its steps.

    Its exit code is the command's. When the command ends, a line says where its logs and captures are.
    """
    from hermes.jobs.api import launch

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
    if snapshot is not None:
        environment = _with_snapshot(environment, snapshot)
    job = launch.in_time(
        lambda: launch.make_job(command, name, environment), launch.DISK_S, "the job runs without Hermes", _say
    )
    if doubt := launch.doubts(command):
        _say(doubt)
    watcher = [sys.executable, "-c", _WATCHER, preset, "look" if no_capture else "capture"]
    code = launch.supervise(command, job, environment, watcher=None if no_watch else watcher, say=_say)
    if job is not None:
        _say(f"run directory: {job.folder}")
    if snapshot is not None and not snapshot.exists():
        _say("no snapshot was written: did the command load torch or MindSpore, and call a module or a cell?")
    sys.exit(code)


def _with_snapshot(environment: dict[str, str], out: Path) -> dict[str, str]:
    from hermes.base.errors import InputError
    from hermes.precision.api import launch

    if out.exists():
        raise InputError("the file is there already", where=str(out), hint="give a new name: nothing is written over")
    return launch.environment(environment, record=None, snapshot=out)


def watch() -> None:
    """The process beside a job, with a low priority: looks at it until its standard input ends, then comes to an end.

    It is a process of its own so that whatever becomes of it, the job and its exit code stay what they are.
    """
    import select
    import signal
    import time

    from hermes.base.errors import InputError
    from hermes.inside.wire.errors import LiveError
    from hermes.inside.wire.rundir import read
    from hermes.jobs.api import Watcher, prune

    # An interrupt from the terminal is for the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)
    preset, acts, folder = sys.argv[1:4]
    try:
        watcher = Watcher(
            read(Path(folder)), preset=preset, environment=os.environ, capture=acts == "capture", say=_say
        )
    except LiveError as gone:
        _say(f"the job is not watched: {gone}")
        return
    with contextlib.suppress(InputError, OSError):
        prune(os.environ, time.time_ns())
    while not select.select([0], [], [], 0.5)[0]:
        watcher.look_safely()
    watcher.close()


def _say(text: str) -> None:
    from hermes.cli.show import plain

    with contextlib.suppress(OSError, ValueError):
        print(f"hermes: {plain(text)}", file=sys.stderr, flush=True)
