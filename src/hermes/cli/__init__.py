"""The command line: one module a command; heavy imports happen inside the command that needs them."""

from __future__ import annotations

import contextlib
import sys


def main() -> None:
    """Run `hermes`; prints a `HermesError` as a message and exits 2."""
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
