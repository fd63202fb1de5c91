"""What is left to do when a command has ended, in processes of their own: both ask the disk, which may not answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hermes.inside.launch.tell import tell
from hermes.inside.wire.errors import LiveError, LogInUseError
from hermes.inside.wire.recovery import recover, save_and_remove
from hermes.inside.wire.rundir import read, running


def main() -> None:
    """`save FOLDER SNAPSHOT`: what the ranks could not write; `remove FOLDER`: the shared memory, if no rank lives."""
    what, folder, *rest = sys.argv[1:]
    try:
        job = read(Path(folder))
        if what == "remove":
            # Ranks that outlive a killed launcher keep theirs, and whoever comes next saves what they leave.
            if not running(job):
                save_and_remove(job)
            return
        recover(job, lost=lambda rank, count: tell(f"{count} records of rank {rank} are lost: the disk was too slow"))
    except LogInUseError:
        # That process saves them.
        pass
    except (LiveError, OSError) as failed:
        tell(f"what the ranks have left in memory is not saved: {failed}")
    snapshot = rest[0] if rest else ""
    if snapshot and not os.path.exists(snapshot):  # noqa: PTH110
        tell("no snapshot was written: did the command load torch or MindSpore, and call a module or a cell?")
