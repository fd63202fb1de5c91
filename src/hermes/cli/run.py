"""`hermes run`: starts a training and watches its steps, with no change to its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hermes.cli.exit_codes import ends
from hermes.inside.launch.options import OPTIONS, Option

_TYPES: dict[str, Any] = {
    "text": str,
    "number": click.IntRange(1),
    "file": click.Path(dir_okay=False),
}


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(OPTIONS):
        command = _option(option)(command)
    return command


def _option(option: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    if not option.takes:
        return click.option(f"--{option.name}", is_flag=True, help=option.help)
    kind = click.Choice(option.choices) if option.choices else _TYPES[option.takes]
    default = option.choices[0] if option.choices else None
    metavar = "OUT.zip" if option.takes == "file" else None
    return click.option(f"--{option.name}", type=kind, default=default, metavar=metavar, help=option.help)


@ends({}, passes="the command's own; as in a shell, 126 if the command cannot be started and 127 if it does not exist")
@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@_options
def run(command: tuple[str, ...], **given: object) -> None:
    """Run a training, such as `python train.py …` or `torchrun --nproc-per-node 2 train.py …`, and watch its steps.

    Hermes becomes the command: its process, signals and exit code are the command's own. The watching processes run
    beside the command. A line at the start says where its logs and captures are.
    """
    from hermes.inside.launch.become_command import become

    wanted = {name.replace("_", "-"): "1" if value is True else str(value) for name, value in given.items() if value}
    become(wanted, command)
