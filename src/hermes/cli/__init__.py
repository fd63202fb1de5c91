"""The command line: one module for each command; heavy imports happen inside the command that needs them."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
from typing import NoReturn

from hermes.base import end_on_signal


def main() -> None:
    """Run `hermes`. An error is printed as a message; the exit code tells its kind, as `docs/cli.md` lists."""
    if sys.argv[1:2] == ["run"]:
        from hermes.inside.launch import become_command

        # `begin.main` becomes the command, and returns only for a wrong word or a request for help.
        become_command.main(sys.argv[2:])
    from hermes.cli.exit_codes import Exit

    try:
        try:
            code = _run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # `hermes … | head` closed the pipe: nothing is left to print.
        sys.stderr.close()
        code = int(Exit.PIPE_CLOSED)
    except Exception as error:  # noqa: BLE001 - an exception is no answer, whichever it is
        code = _show(error)
    if code:
        sys.exit(code)


def _run() -> int:
    """Run the command and return its exit code; a command may also raise `SystemExit`."""
    import click

    from hermes.cli.app import app
    from hermes.cli.exit_codes import Exit

    try:
        # Not by click's `main`, which ends with 1 when the reader of the answer has stopped.
        with app.make_context("hermes", sys.argv[1:]) as context:
            app.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return Exit.UNUSABLE
    return 0


def _show(error: Exception) -> int:
    """Print an error; returns the exit code of its kind."""
    from hermes.base.defect_reports import VARIABLE, Defect, no_memory
    from hermes.base.errors import HermesError
    from hermes.cli.exit_codes import Exit
    from hermes.cli.print_output import show_error, show_lines

    if isinstance(error, HermesError):
        show_error(error)
        return Exit.UNUSABLE
    if isinstance(error, MemoryError):
        show_error(no_memory())
        return Exit.UNUSABLE
    if isinstance(error, OSError):
        _show_refused(error)
        # Output that could not be written would be tried again at the end.
        with contextlib.suppress(OSError):
            sys.stdout.close()
        return Exit.UNUSABLE
    defect = Defect.of(error)
    if os.environ.get(VARIABLE):
        show_lines(defect.trace, to=sys.stderr)
    show_error(defect.told)
    return Exit.DEFECT


def _show_refused(error: OSError) -> None:
    """Print that the system refused the output, which has no file name."""
    from hermes.base.errors import HermesError
    from hermes.cli.print_output import show_error

    full = error.filename is None or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "free disk space, or print elsewhere" if full else "check the path, and that you may use it"
    place = str(error.filename or "the output")
    show_error(HermesError(error.strerror or str(error), where=place, lost="the answer", hint=hint))


COLLECTED_AFTER = (100_000, 50, 50)
"""The thresholds of the garbage collector in the command: it allocates columns and few reference cycles."""


def command() -> NoReturn:
    """The command `hermes`: runs `main` as a process of its own.

    The process ends without the interpreter's teardown, which takes a tenth of a second to free memory that the system
    takes back at once. The garbage collector runs less often. Threads release the interpreter sooner than by default
    (5 ms): hashing and queries then do not wait for an import or a loop.
    """
    if sys.argv[1:2] != ["run"]:
        end_on_signal.end_process_on_signal()
    _stand_in_for_closed()
    gc.set_threshold(*COLLECTED_AFTER)
    sys.setswitchinterval(0.0002)
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except KeyboardInterrupt:
        end_on_signal.interrupted()
    if not isinstance(code, int):
        sys.exit(str(code))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _stand_in_for_closed() -> None:
    """Open standard streams that were closed at the start, and let any text through, in ASCII too."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - until the process ends
        elif getattr(sys, name).errors == "strict":
            getattr(sys, name).reconfigure(errors="backslashreplace")
