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
from hermes.base.message import Text
from hermes.base.say import language_of, say
from hermes.inside.launch.tell import tell
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import read
from hermes.jobs.messages import not_watched
from hermes.jobs.prune import prune
from hermes.jobs.reasons import reason
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
            read(Path(folder)), preset=preset, environment=os.environ, capture=acts == "capture", say=_say
        )
    except (HermesError, LiveError) as gone:
        _say(not_watched(why=reason(gone)))
        return
    # Thousands of old run directories take seconds.
    pruning = threading.Thread(target=_prune, daemon=True)
    pruning.start()
    while not select.select([0], [], [], _LOOK_S)[0]:
        watcher.look_safely()
    watcher.close()
    # Short jobs leave run directories, too. Who looks on bounds the wait.
    pruning.join()


def _say(text: Text) -> None:
    """In the reader's language, where the terminal can show it."""
    wide = (getattr(sys.stderr, "encoding", "") or "").lower().startswith(("utf", "gb"))
    tell(say(text, language_of(os.environ) if wide else "en"))


def _prune() -> None:
    with contextlib.suppress(HermesError, OSError):
        prune(os.environ, time.time_ns())
