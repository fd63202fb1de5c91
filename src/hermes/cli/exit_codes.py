"""Declares the exit codes of all commands, each once, for `--help` and `docs/cli.md`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

import click

Command = TypeVar("Command", bound=click.Command)


class Exit(enum.IntEnum):
    """An exit code of a command of Hermes."""

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
    Exit.DONE: "done; missing parts of the input are reported first",
    Exit.UNUSABLE: "the input or the command line cannot be used, or a selection matches nothing: "
    "stderr says what, where and what to do",
}
"""Exit codes of every command, unless the command declares a meaning of its own."""

ENDED: Mapping[Exit, str] = {
    Exit.DEFECT: "Hermes failed because of a defect: stderr says where; HERMES_TRACEBACK=1 prints the traceback",
    Exit.HUNG_UP: "SIGHUP ended the command",
    Exit.INTERRUPTED: "Ctrl-C ended the command",
    Exit.PIPE_CLOSED: "the reader of the output stopped, as in a pipe to head",
    Exit.TERMINATED: "SIGTERM ended the command",
}
"""Exit codes of a command that ends without an answer. No command uses these codes itself."""

_OWN: dict[click.Command, Mapping[Exit, str]] = {}
_OF_ANOTHER: dict[click.Command, str] = {}


def ends(own: Mapping[Exit, str], *, passes: str = "") -> Callable[[Command], Command]:
    """Declare meanings of exit codes for one command, beside or instead of the common meanings.

    `passes` names the program whose exit code the command passes on, if it does. The declaration becomes the end of the
    command's help.
    """

    def declared(command: Command) -> Command:
        _OWN[command] = own
        if passes:
            _OF_ANOTHER[command] = passes
        rows = [f"  {code:<5} {text[0].upper()}{text[1:]}." for code, text in rows_of(command)]
        # This mark keeps click from joining the lines.
        command.epilog = "\n".join(["\b", "Exit codes:", *rows])
        return command

    return declared


def codes_of(command: click.Command) -> Mapping[Exit, str]:
    """Each exit code of a command with its meaning."""
    return dict(sorted({**ANY, **_OWN.get(command, {})}.items()))


def rows_of(command: click.Command) -> Iterator[tuple[str, str]]:
    """The exit codes as they are printed; the last row is for another program's codes, if the command passes them
    on."""
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
    """Exit with the exit code of the program that was run. Raises `LookupError` unless the running command declares
    this."""
    command = click.get_current_context().command
    if command not in _OF_ANOTHER:
        raise LookupError(f"hermes {command.name} declares no exit code of another program")
    raise SystemExit(status)
