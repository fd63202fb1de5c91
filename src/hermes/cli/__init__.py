"""The command line: one module a command; heavy imports happen inside the command that needs them."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `hermes`; prints a `HermesError` as a message and exits 2."""
    from hermes.base.errors import HermesError
    from hermes.cli.app import app

    try:
        app(prog_name="hermes")
    except HermesError as error:
        from hermes.cli.show import show_error

        show_error(error)
        sys.exit(2)
    except BrokenPipeError:
        # `hermes … | head` closed the pipe: nothing more to say.
        sys.stderr.close()
        sys.exit(0)
