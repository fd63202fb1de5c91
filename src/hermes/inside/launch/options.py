"""Declares the options of `hermes run` once: the launcher parses them, and the command line prints their help."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from typing import NamedTuple


class Option(NamedTuple):
    """An option of `hermes run`. `takes` is empty for a flag; the environment variable `variable` passes it to the
    ranks."""

    name: str
    help: str
    takes: str = ""
    choices: tuple[str, ...] = ()
    variable: str = ""


OPTIONS = (
    Option("name", "Name of the job; by default the script's name.", "text"),
    Option("preset", "Detector of slow steps.", "choice", ("robust", "ksigma")),
    Option("no-capture", "Raise alarms about slow steps, but start no capture for them."),
    Option("no-watch", "Only count steps; `hermes watch` can watch the job from elsewhere."),
    Option(
        "collectives",
        "Time the calls of torch.distributed too; not with torch.compile.",
        variable="HERMES_COLLECTIVES",
    ),
    Option(
        "flops-per-step",
        "FLOPs of the model in a step of one rank, for MFU.",
        "number",
        variable="HERMES_FLOPS_PER_STEP",
    ),
    Option(
        "count-flops",
        "Count the FLOPs of a step in two early steps, which then take longer.",
        variable="HERMES_COUNT_FLOPS",
    ),
    Option("device-events", "Time steps on the device by the device's events.", variable="HERMES_DEVICE_EVENTS"),
    Option("snapshot", "Write the setup of the run to this file, for `hermes precision check`.", "file"),
    Option(
        "transfers",
        "Time the calls that copy tensors from the processor to a device.",
        variable="HERMES_TRANSFERS",
    ),
)
_BY_NAME = {option.name: option for option in OPTIONS}


def parse(words: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """The given options by name, with "1" for a flag, and the command.

    None where the words ask for help or are wrong: the command line then prints the explanation.
    """
    names = [option.name + ("=" if option.takes else "") for option in OPTIONS]
    try:
        given, command = getopt.getopt(list(words), "", names)
    except getopt.GetoptError:
        return None
    values = {name[2:]: value or "1" for name, value in given if value or not _BY_NAME[name[2:]].takes}
    if not command or not command[0] or not all(_fits(_BY_NAME[name], value) for name, value in values.items()):
        return None
    return values, command


def _fits(option: Option, value: str) -> bool:
    if option.takes == "choice":
        return value in option.choices
    if option.takes == "number":
        return value.isascii() and value.isdecimal() and int(value) > 0 and len(value) < 19
    return True
