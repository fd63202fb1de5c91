"""The exit codes of all commands: each is declared here once. `--help` and `docs/cli.md` repeat what stands here."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

import click

Command = TypeVar("Command", bound=click.Command)


class Exit(enum.IntEnum):
    """A number that a command of Hermes may exit with."""

    DONE = 0
    NO = 1
    UNUSABLE = 2
    PARTLY = 3
    DEFECT = 70
    HUNG_UP = 129
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


ANY: Mapping[Exit, str] = {
    Exit.DONE: "done; what the input lacks is said first",
    Exit.UNUSABLE: "the input or the command line cannot be used, or a selection matches nothing: "
    "stderr says what, where and what to do",
}
"""What every command may exit with, where it does not say more of it itself."""

ENDED: Mapping[Exit, str] = {
    Exit.DEFECT: "Hermes itself failed, a defect: stderr says where; HERMES_TRACEBACK=1 prints the traceback",
    Exit.HUNG_UP: "SIGHUP ended the command",
    Exit.INTERRUPTED: "Ctrl-C ended the command",
    Exit.PIPE_CLOSED: "whoever read the answer stopped, as in a pipe to head",
    Exit.TERMINATED: "SIGTERM ended the command",
}
"""How any command may end that comes to no answer. No command leaves by these codes itself."""

_OWN: dict[click.Command, Mapping[Exit, str]] = {}
_OF_ANOTHER: dict[click.Command, str] = {}


def ends(own: Mapping[Exit, str], *, passes: str = "") -> Callable[[Command], Command]:
    """Declare what exit codes mean for a command, beside or instead of what they mean for any.

    `passes` says whose exit code the command hands on, where it does. The declaration becomes the end of its help.
    """

    def declared(command: Command) -> Command:
        _OWN[command] = own
        if passes:
            _OF_ANOTHER[command] = passes
        rows = [f"  {code:<5} {text[0].upper()}{text[1:]}." for code, text in rows_of(command)]
        # The mark keeps click from joining the lines.
        command.epilog = "\n".join(["\b", "Exit codes:", *rows])
        return command

    return declared


def codes_of(command: click.Command) -> Mapping[Exit, str]:
    """Each exit code of a command with its meaning."""
    return dict(sorted({**ANY, **_OWN.get(command, {})}.items()))


def rows_of(command: click.Command) -> Iterator[tuple[str, str]]:
    """The codes as they are printed; the last row is for those of another program, where the command hands them on."""
    yield from ((str(code.value), text) for code, text in codes_of(command).items())
    if command in _OF_ANOTHER:
        yield "other", _OF_ANOTHER[command]


def leave(code: Exit) -> NoReturn:
    """Exit. Raises `LookupError` for a code that the running command does not declare."""
    command = click.get_current_context().command
    if code not in codes_of(command):
        raise LookupError(f"hermes {command.name} does not declare the exit code {code.value}")
    raise SystemExit(int(code))


def hand_on(status: int) -> NoReturn:
    """Exit as the program did that was run. Raises `LookupError` where the running command does not declare that."""
    command = click.get_current_context().command
    if command not in _OF_ANOTHER:
        raise LookupError(f"hermes {command.name} declares no exit code of another program")
    raise SystemExit(status)
