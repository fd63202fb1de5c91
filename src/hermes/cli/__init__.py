"""The command line: one module a command; heavy imports happen inside the command that needs them."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn


def main() -> None:
    """Run `hermes`; prints a `HermesError` as a message and exits 2."""
    if sys.argv[1:2] == ["run"]:
        from hermes.inside.launch import begin

        # It becomes the command, and comes back only where a word is wrong or help is asked for.
        begin.main(sys.argv[2:])
    from hermes.base.errors import HermesError
    from hermes.cli.app import app

    try:
        try:
            app(prog_name="hermes")
        finally:
            sys.stdout.flush()
    except HermesError as error:
        from hermes.cli.show import show_error

        show_error(error)
        sys.exit(2)
    except BrokenPipeError:
        # `hermes … | head` closed the pipe: nothing more to say.
        sys.stderr.close()
        sys.exit(0)
    except OSError as refused:
        from hermes.cli.show import show_error

        place = str(refused.filename or "the output")
        show_error(
            HermesError(
                refused.strerror or str(refused),
                where=place,
                lost="the answer",
                hint="free disk space, or print elsewhere",
            )
        )
        # What could not be written would be tried again at the end.
        with contextlib.suppress(OSError):
            sys.stdout.close()
        sys.exit(2)


def command() -> NoReturn:
    """The command `hermes`: `main` in a process of its own.

    The process ends without the interpreter's teardown, which takes a tenth of a second to free, piece by piece, memory
    that the system takes back at once. What this process allocates is columns, not cycles: the collector looks for
    these less often. Threads hand the interpreter over sooner than they would by default (5 ms), so that hashing and
    queries do not wait for an import or a loop.
    """
    gc.set_threshold(100_000, 50, 50)
    sys.setswitchinterval(0.0002)
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    if not isinstance(code, int):
        sys.exit(str(code))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
