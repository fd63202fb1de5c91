"""The watcher process beside a job, at a low priority: if the watcher fails, the job goes on."""

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
from hermes.inside.launch.write_stderr import tell
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import read
from hermes.jobs.failure_reasons import reason
from hermes.jobs.messages import not_watched
from hermes.jobs.prune import prune
from hermes.jobs.watch_job import Watcher

_LOOK_S = 0.5


def main() -> None:
    """`PRESET capture|look FOLDER`: watch the job in FOLDER until standard input ends, then finish."""
    # The companion process ends with the job, and closes this process's standard input.
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
    # Thousands of old run directories take seconds to check.
    pruning = threading.Thread(target=_prune, daemon=True)
    pruning.start()
    while not select.select([0], [], [], _LOOK_S)[0]:
        watcher.look_safely()
    watcher.close()
    # Short jobs leave run directories, too. The companion process bounds the wait.
    pruning.join()


def _say(text: Text) -> None:
    """Print a message in the reader's language, if the terminal can show that language."""
    wide = (getattr(sys.stderr, "encoding", "") or "").lower().startswith(("utf", "gb"))
    tell(say(text, language_of(os.environ) if wide else "en"))


def _prune() -> None:
    with contextlib.suppress(HermesError, OSError):
        prune(os.environ, time.time_ns())
