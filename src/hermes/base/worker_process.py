"""A worker process, which `isolated_python` starts: calls functions and returns results until its parent hangs up."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from hermes.base.defect_reports import Defect
from hermes.base.end_on_signal import end_with_parent
from hermes.base.errors import HermesError


def serve(connection: Connection) -> None:
    """Answer calls from the pipe: with the result, a `HermesError`, or the defect that another exception shows."""
    while True:
        try:
            function, given = connection.recv()
        except EOFError:
            return
        try:
            answer = ("made", function(given))
        except HermesError as error:
            answer = ("lost", error)
        except Exception as error:  # noqa: BLE001 - a fault of ours must reach the parent, whatever it is
            answer = ("broken", Defect.of(error))
        try:
            connection.send(answer)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    with Connection(int(sys.argv[1])) as open_end:
        serve(open_end)
