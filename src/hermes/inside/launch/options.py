"""The options of `hermes run`, declared once: the launcher reads them, and the command line prints their help."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from typing import NamedTuple


class Option(NamedTuple):
    """One option. `takes` is empty for a flag; `variable` of the environment carries it to the ranks."""

    name: str
    help: str
    takes: str = ""
    choices: tuple[str, ...] = ()
    variable: str = ""


OPTIONS = (
    Option("name", "Name of the job; the script's without it.", "text"),
    Option("preset", "How slow steps are noticed.", "choice", ("robust", "ksigma")),
    Option("no-capture", "Notice slow steps, but record no profile by itself."),
    Option("no-watch", "Only count steps; `hermes watch` can look on from elsewhere."),
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
        "Count these FLOPs in two early steps, which take longer for it.",
        variable="HERMES_COUNT_FLOPS",
    ),
    Option("device-events", "Time steps on the device by its own events.", variable="HERMES_DEVICE_EVENTS"),
    Option("snapshot", "Write how the run is set up, for `hermes precision check`.", "file"),
    Option(
        "transfers",
        "Time the calls that copy tensors from the processor to a device.",
        variable="HERMES_TRANSFERS",
    ),
)
_BY_NAME = {option.name: option for option in OPTIONS}


def parse(words: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """What is given, by the option's name, and the command; a flag that is given is "1".

    None where the words ask for help or are wrong: the command line prints what there is to say.
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
