"""A process that calls functions and sends back what they made, until its parent hangs up; `isolated` starts it."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from hermes.base.defects import Defect
from hermes.base.ending import with_parent
from hermes.base.errors import HermesError


def serve(connection: Connection) -> None:
    """Answer calls; of a `HermesError` the error is the answer, of any other what it tells of a defect."""
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
    with_parent(int(sys.argv[1]))
    with Connection(int(sys.argv[1])) as open_end:
        serve(open_end)
