"""`hermes profile`: captures some steps of a running job, without stopping it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes.base.errors import InputError
from hermes.base.sanitize_text import shell_command
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_data, show_line
from hermes.cli.shared_options import numbers, teller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.base.message import Text
    from hermes.inside.wire.control import Slot
    from hermes.inside.wire.rundir import Job
    from hermes.jobs.api import request_capture


_WARM_UP = 10
"""The number of a job's first steps that warm up: memory, caches and compiled code come into being."""
_STEPS = 2
"""The number of steps to capture, unless the user names another number, steps are short, or some evenly longer."""


@ends(
    {
        Exit.PARTLY: "not every rank has finished",
        Exit.INTERRUPTED: "with --kineto-daemon: the command was interrupted while ranks still recorded",
    }
)
@click.command("profile")
@click.argument("job", required=False, default="")
@click.option(
    "--steps",
    type=click.IntRange(1, 100),
    help="Number of steps to capture; by default 2; up to 10 if steps are short, or some evenly longer.",
)
@click.option("--level", default="standard", help="Level of detail: light, standard or full.")
@click.option("--ranks", default="", help="Ranks to capture, such as 0,3-5; by default all.")
@click.option("--memory", is_flag=True, help="Record memory allocations too.")
@click.option(
    "--stack/--no-stack", default=None,
    help="Record Python stacks, or leave them out; by default from level standard on, unless there are too many.",
)  # fmt: skip
@click.option("--mstx", is_flag=True, help="Record mstx marks too.")
@click.option("--aic-metrics", default="", help="Metrics of the AI core, such as PipeUtilization.")
@click.option(
    "--option",
    "more",
    multiple=True,
    metavar="NAME=VALUE",
    help="By torch_npu, more than the level records: l2_cache=yes, op_attr=yes, record_op_args=yes, sys_io=yes, "
    "sys_interconnection=yes, host_sys=cpu,mem,disk,network,osrt, gc_detect_threshold=MS, export_type=text,db, "
    "mstx_domain_include=NAMES or mstx_domain_exclude=NAMES.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the capture; by default in the job's run directory.",
)
@click.option("--largest", type=click.IntRange(1), default=2000, help="Megabytes that one rank may write.")
@click.option("--user", default="", help="Capture a job of this user, if root's policy makes this account an operator.")
@click.option("--status", is_flag=True, help="Only print what the job's ranks are doing.")
@click.option("--cancel", is_flag=True, help="Only end the capture that is under way.")
@click.option(
    "--dynamic-config",
    type=click.Path(path_type=Path),
    help="Folder that torch_npu watches (PROF_CONFIG_PATH), for a job started without Hermes.",
)
@click.option("--replace", is_flag=True, help="Overwrite a configuration that already requests a profile.")
@click.option(
    "--kineto-daemon",
    is_flag=True,
    help="Act as the daemon that torch asks (KINETO_USE_DAEMON=1), for a job started without Hermes.",
)
@click.option(
    "--socket-dir",
    type=click.Path(path_type=Path),
    envvar="KINETO_IPC_SOCKET_DIR",
    help="Folder of the daemon's socket, if the job has a KINETO_IPC_SOCKET_DIR.",
)
@click.option(
    "--start-step", type=click.IntRange(1),
    help="First step of the capture; by default soon. For a job started without Hermes, as torch counts steps.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="End once every rank has accepted the capture.")
@click.option("--follow", is_flag=True, help="Request nothing: wait for the capture that begins at --start-step.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output.")
@click.option(
    "--every", type=click.IntRange(1), help="Begin at a step that is a multiple of this number; with --kineto-daemon."
)
def run(
    job: str, steps: int | None, level: str, ranks: str, out: Path | None, aic_metrics: str, largest: int, user: str,
    more: tuple[str, ...], dynamic_config: Path | None, socket_dir: Path | None, start_step: int | None,
    every: int | None, form: str, *,
    memory: bool, stack: bool | None, mstx: bool, status: bool, cancel: bool, replace: bool, kineto_daemon: bool,
    no_wait: bool, follow: bool,
) -> None:  # fmt: skip
    """Record some steps of a running job on all ranks at once.

    JOB is the job's name or a part of it; not needed when only one job runs. `hermes watch` lists the jobs. With
    --kineto-daemon, JOB is the number of a process, or a part of its command.
    """
    from hermes.jobs.api import capture_messages, check_capture_request, messages, request_capture

    chosen = tuple(sorted(numbers("--ranks", ranks) or ()))
    options = {name: "yes" for name, asked in (("memory", memory), ("mstx", mstx)) if asked}
    if stack is not None:
        options["stack"] = "yes" if stack else "no"
    if aic_metrics:
        options["aic_metrics"] = aic_metrics
    options |= _named(more)
    _fit(
        {
            "--dynamic-config": dynamic_config, "--kineto-daemon": kineto_daemon, "JOB": job, "--status": status,
            "--cancel": cancel, "--start-step": start_step, "--replace": replace, "--every": every, "--mstx": mstx,
            "--aic-metrics": aic_metrics, "--memory": memory, "--user": user, "--no-wait": no_wait, "--follow": follow,
            "--option": more,
        }
    )  # fmt: skip
    if dynamic_config is not None:
        _without_hermes(
            dynamic_config, replace=replace, steps=steps or _STEPS, level=level, ranks=chosen,
            out=out or dynamic_config, options=options, **({"start_step": start_step} if start_step else {}),
        )  # fmt: skip
        return
    if kineto_daemon:
        from hermes.cli.profile_kineto import record

        leave(
            record(
                socket_dir, job, steps=steps or _STEPS, level=level, ranks=chosen, out=out or Path(), stack=stack,
                start_step=start_step, every=every, largest_bytes=largest * 1_000_000,
            )
        )  # fmt: skip
    found = request_capture.find_job(job, os.environ, user=user, action="see" if status else "capture")
    if status:
        _status(found, form)
        return
    if cancel:
        was = request_capture.cancel(found, start_step=start_step)
        _print(
            messages.of_job(
                job=found.id, said=messages.CaptureState.CANCELLED.message if was else capture_messages.NOTHING_ASKED
            )
        )
        return
    if follow:
        leave(_followed(found, start_step or 0, form))
    wish = request_capture.CaptureWish(
        steps=steps or _STEPS, level=level, ranks=chosen, out=out, options=options, largest_bytes=largest * 1_000_000,
        start_step=start_step, grows=steps is None,
    )  # fmt: skip
    if waits := check_capture_request(found, options):
        show_line(teller(None)(waits), to=sys.stderr)
    leave(_taken(found, wish, form, waits=not no_wait))


def _followed(job: Job, start_step: int, form: str) -> Exit:
    """Wait for the result of a requested capture."""
    from hermes.jobs.api import capture_document

    asked = capture_document.asked_at(job, start_step)
    return _ended(asked, capture_document.outcome(asked), form)


def _taken(job: Job, wish: request_capture.CaptureWish, form: str, *, waits: bool) -> Exit:
    """Request a capture; then wait for its end, or until every rank has accepted it."""
    from hermes.jobs.api import capture_document, request_capture

    tell = _tell if form == "text" else lambda _: None
    asking = _asked if form == "text" else lambda _: None
    if waits and wish.start_step is None:
        return _ended(*request_capture.ask_until_taken(job, wish, asked=asking, tell=tell), form)
    asked = request_capture.request_capture_of_job(job, wish, now_ns=time.time_ns())
    asking(asked)
    if waits:
        return _ended(asked, request_capture.follow(asked, tell=tell), form)
    said = capture_document.ranks_that_heard(asked)
    if form == "json":
        show_data(capture_document.text(capture_document.capture(asked, said)))
    for slot in said.values():
        tell(slot)
    up = bool(said) and all(slot.state in ("accepted", "started", "finished") for slot in said.values())
    return Exit.DONE if up else Exit.PARTLY


def _ended(asked: request_capture.RequestedCapture, said: Mapping[int, Slot], form: str) -> Exit:
    """Print the ranks' answers to a capture; returns the exit code."""
    from hermes.jobs.api import capture_document, capture_messages

    good = bool(said) and all(slot.state == "finished" for slot in said.values())
    if form == "json":
        show_data(capture_document.text(capture_document.capture(asked, said)))
        return Exit.DONE if good else Exit.PARTLY
    _print(capture_messages.capture_is(folder=str(asked.folder)))
    if good:
        _print(capture_messages.next_is(command=shell_command("hermes", "analyze", str(asked.folder))))
    return Exit.DONE if good else Exit.PARTLY


def _named(more: tuple[str, ...]) -> dict[str, str]:
    """The values of options written as NAME=VALUE, by name. Raises `InputError` for an unknown name."""
    from hermes.inside.wire.capture_levels import NPU_OPTIONS
    from hermes.jobs.api import capture_messages, choices

    found: dict[str, str] = {}
    for text in more:
        name, _, value = text.partition("=")
        if name not in NPU_OPTIONS or not value:
            raise InputError(
                capture_messages.no_option(option=text[:60]), where="--option", hint=choices(names=NPU_OPTIONS)
            )
        found[name] = value
    return found


def _fit(given: Mapping[str, object]) -> None:
    """Raise `InputError` for options that exclude each other: options for jobs with Hermes, and for the two ways
    without."""
    named = {name for name, value in given.items() if value}
    alone = {
        "--dynamic-config": {"--kineto-daemon", "JOB", "--status", "--cancel", "--every", "--user"},
        "--kineto-daemon": {
            "--status",
            "--cancel",
            "--mstx",
            "--aic-metrics",
            "--replace",
            "--memory",
            "--user",
            "--option",
        },
    }
    mode = next((name for name in alone if name in named), "")
    wrong = named & (alone[mode] | {"--no-wait", "--follow"} if mode else {"--replace", "--every"})
    if wrong:
        from hermes.jobs.api import capture_messages

        if mode:
            raise InputError(capture_messages.options_apart(option=min(wrong), mode=mode), where="hermes profile")
        what, hint = capture_messages.only_without_hermes(option=min(wrong)), capture_messages.WHICH_MODE
        raise InputError(what, where="hermes profile", hint=hint)


def _without_hermes(folder: Path, *, replace: bool, **asked: Any) -> None:
    from hermes.jobs.api import ProfileRequest, capture_messages, write_config

    ask = ProfileRequest(**asked)
    _print(capture_messages.written(path=str(write_config(folder, ask, replace=replace))))
    _print(capture_messages.look_below(folder=str(ask.out)))


def _asked(asked: request_capture.RequestedCapture) -> None:
    from hermes.jobs.api import capture_messages

    first = asked.request.start_step
    _print(capture_messages.asked(job=asked.job.id, steps=range(first, first + asked.request.steps)))
    if first <= _WARM_UP:
        _print(capture_messages.WARMING_UP)


def _tell(slot: Slot) -> None:
    from hermes.jobs.api import said_by

    for answer in said_by([slot]):
        _print(answer)


def _status(job: Job, form: str) -> None:
    from hermes.inside.wire.control import Control
    from hermes.jobs.api import capture_document, capture_messages, messages, progress_of_ranks, quoted

    if form == "json":
        show_data(capture_document.text(capture_document.status(job)))
        return
    at = progress_of_ranks(job)
    control = Control.attach(job.segment, job=job.id)
    _print(messages.of_job(job=job.id, said=quoted(text=str(job.folder))))
    for slot in control.slots():
        life = capture_messages.ENDED if not slot.alive else capture_messages.NO_STEP_OF_RANK
        if slot.alive and slot.rank in at:
            life = capture_messages.at_step(step=at[slot.rank][0], takes=at[slot.rank][1])
        state = messages.CaptureState(slot.state).message
        _print(capture_messages.rank_is(rank=slot.rank, pid=str(slot.pid), life=life, state=state, text=slot.text))


def _print(text: Text) -> None:
    show_line(teller(None)(text))
