"""`hermes profile`: a capture of a running job, without stopping it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes.base.errors import InputError
from hermes.base.foreign_text import shell_command
from hermes.cli.exits import Exit, ends, leave
from hermes.cli.options import numbers, teller
from hermes.cli.show import show_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.base.message import Text
    from hermes.inside.wire.control import Slot
    from hermes.inside.wire.rundir import Job
    from hermes.jobs.api import captures


@ends(
    {
        Exit.PARTLY: "not every rank has finished",
        Exit.INTERRUPTED: "with --kineto-daemon: it was interrupted while the ranks went on with what they were asked",
    }
)
@click.command("profile")
@click.argument("job", required=False, default="")
@click.option("--steps", type=click.IntRange(1, 100), default=2, help="How many steps.")
@click.option("--level", default="standard", help="light, standard or full.")
@click.option("--ranks", default="", help="Which ranks, such as 0,3-5; all without it.")
@click.option("--memory", is_flag=True, help="Record allocations too.")
@click.option(
    "--stack/--no-stack", default=None,
    help="Record Python stacks too; without either, from the level standard on, where they are not too many.",
)  # fmt: skip
@click.option("--mstx", is_flag=True, help="Record marks of mstx too.")
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
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the capture, instead of the job's.")
@click.option("--largest", type=click.IntRange(1), default=2000, help="Megabytes that one rank may write.")
@click.option("--user", default="", help="Of that user's jobs, where root's policy makes this account an operator.")
@click.option("--status", is_flag=True, help="Only say what the job's ranks are doing.")
@click.option("--cancel", is_flag=True, help="Only end the capture that is under way.")
@click.option(
    "--dynamic-config",
    type=click.Path(path_type=Path),
    help="Folder that torch_npu watches (PROF_CONFIG_PATH), for a job started without Hermes.",
)
@click.option("--replace", is_flag=True, help="Write over a configuration that asks for a profile already.")
@click.option(
    "--kineto-daemon",
    is_flag=True,
    help="Be the daemon that torch asks (KINETO_USE_DAEMON=1), for a job started without Hermes.",
)
@click.option(
    "--socket-dir",
    type=click.Path(path_type=Path),
    envvar="KINETO_IPC_SOCKET_DIR",
    help="Folder of the daemon's socket, where the job has a KINETO_IPC_SOCKET_DIR.",
)
@click.option(
    "--start-step", type=click.IntRange(1), help="First step, for jobs started without Hermes; as torch counts."
)
@click.option("--every", type=click.IntRange(1), help="Begin at a multiple of so many steps; with --kineto-daemon.")
def run(
    job: str, steps: int, level: str, ranks: str, out: Path | None, aic_metrics: str, largest: int, user: str,
    more: tuple[str, ...], dynamic_config: Path | None, socket_dir: Path | None, start_step: int | None,
    every: int | None, *,
    memory: bool, stack: bool | None, mstx: bool, status: bool, cancel: bool, replace: bool, kineto_daemon: bool,
) -> None:  # fmt: skip
    """Record some steps of a running job on all ranks at once.

    JOB is its name or a part of it; not needed when only one job runs. `hermes watch` lists them. With --kineto-daemon
    it is the number of a process, or a part of its command.
    """
    from hermes.jobs.api import capture_messages, captures, fitting, messages

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
            "--aic-metrics": aic_metrics, "--memory": memory, "--user": user,
            "--option": more,
        }
    )  # fmt: skip
    if dynamic_config is not None:
        _without_hermes(
            dynamic_config, replace=replace, steps=steps, level=level, ranks=chosen, out=out or dynamic_config,
            options=options, **({"start_step": start_step} if start_step else {}),
        )  # fmt: skip
        return
    if kineto_daemon:
        from hermes.cli.profile_kineto import record

        leave(
            record(
                socket_dir, job, steps=steps, level=level, ranks=chosen, out=out or Path(), stack=stack,
                start_step=start_step, every=every, largest_bytes=largest * 1_000_000,
            )
        )  # fmt: skip
    found = captures.find_job(job, os.environ, user=user, action="see" if status else "capture")
    if status:
        _status(found)
        return
    if cancel:
        captures.cancel(found)
        _print(messages.of_job(job=found.id, said=messages.CaptureState.CANCELLED.message))
        return
    wish = captures.Wish(
        steps=steps,
        level=level,
        ranks=chosen,
        out=out,
        options=options,
        largest_bytes=largest * 1_000_000,
    )
    if waits := fitting.check(found, options):
        show_line(teller(None)(waits), to=sys.stderr)
    asked, said = captures.taken(found, wish, asked=_asked, tell=_tell)
    good = bool(said) and all(slot.state == "finished" for slot in said.values())
    _print(capture_messages.capture_is(folder=str(asked.folder)))
    if good:
        _print(capture_messages.next_is(command=shell_command("hermes", "analyze", str(asked.folder))))
    leave(Exit.DONE if good else Exit.PARTLY)


def _named(more: tuple[str, ...]) -> dict[str, str]:
    """Options as they are written, by name. Raises `InputError` for a name that is none."""
    from hermes.inside.wire.levels import NPU_OPTIONS
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
    """Raises `InputError` for options that do not go together: those of jobs with Hermes and of the two without."""
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
    wrong = named & (alone[mode] if mode else {"--start-step", "--replace", "--every"})
    if wrong:
        from hermes.jobs.api import capture_messages

        if mode:
            raise InputError(capture_messages.options_apart(option=min(wrong), mode=mode), where="hermes profile")
        what, hint = capture_messages.only_without_hermes(option=min(wrong)), capture_messages.WHICH_MODE
        raise InputError(what, where="hermes profile", hint=hint)


def _without_hermes(folder: Path, *, replace: bool, **asked: Any) -> None:
    from hermes.jobs.api import Ask, capture_messages, write

    ask = Ask(**asked)
    _print(capture_messages.written(path=str(write(folder, ask, replace=replace))))
    _print(capture_messages.look_below(folder=str(ask.out)))


def _asked(asked: captures.Asked) -> None:
    from hermes.jobs.api import capture_messages

    first = asked.request.start_step
    _print(capture_messages.asked(job=asked.job.id, steps=range(first, first + asked.request.steps)))


def _tell(slot: Slot) -> None:
    from hermes.jobs.api import said_by

    for answer in said_by([slot]):
        _print(answer)


def _status(job: Job) -> None:
    from hermes.inside.wire.control import Control
    from hermes.jobs.api import capture_messages, messages, progress, quoted

    at = progress(job)
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
