"""Saves the records and removes the shared memory after a command has ended, in separate processes: a disk may hang."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hermes.inside.launch.write_stderr import tell
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.recovery import recover, save_and_remove
from hermes.inside.wire.rundir import read, running


def main() -> None:
    """`save FOLDER SNAPSHOT` saves records that ranks could not write; `remove FOLDER` removes shared memory if no rank
    lives."""
    what, folder, *rest = sys.argv[1:]
    try:
        job = read(Path(folder))
        if what == "remove":
            # Ranks that outlive a killed launcher keep their shared memory, and the next process of Hermes saves their
            # records.
            if not running(job):
                save_and_remove(job)
            return
        recover(job, lost=lambda rank, count: tell(f"{count} records of rank {rank} are lost: the disk was too slow"))
    except LogInUseError:
        # The other process saves the records.
        pass
    except (LiveError, OSError) as failed:
        tell(f"what the ranks have left in memory is not saved: {failed}")
    snapshot = rest[0] if rest else ""
    if snapshot and not os.path.exists(snapshot):  # noqa: PTH110
        tell("no snapshot was written: did the command load torch or MindSpore, and call a module or a cell?")
