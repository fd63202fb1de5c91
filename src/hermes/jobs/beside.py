"""The watcher beside a job, a process of its own with a low priority: whatever becomes of it, the job goes on."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.inside.launch.tell import tell
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import read
from hermes.jobs.prune import prune
from hermes.jobs.watch import Watcher

_LOOK_S = 0.5


def main() -> None:
    """`PRESET capture|look FOLDER`: look at the job until standard input ends, then come to an end."""
    # Who looks on ends with the job, and by closing this one's standard input.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(5)
    preset, acts, folder = sys.argv[1:4]
    try:
        watcher = Watcher(
            read(Path(folder)), preset=preset, environment=os.environ, capture=acts == "capture", say=tell
        )
    except (HermesError, LiveError) as gone:
        tell(f"the job is not watched: {gone}")
        return
    # Thousands of old run directories take seconds.
    pruning = threading.Thread(target=_prune, daemon=True)
    pruning.start()
    while not select.select([0], [], [], _LOOK_S)[0]:
        watcher.look_safely()
    watcher.close()
    # Short jobs leave run directories, too. Who looks on bounds the wait.
    pruning.join()


def _prune() -> None:
    with contextlib.suppress(HermesError, OSError):
        prune(os.environ, time.time_ns())
