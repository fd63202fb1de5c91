"""Device tasks as arrays: start, end, stream, launch, and the task that each waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.previous_tasks import NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Device tasks by start, as equally long arrays; -1 stands for a missing value.

    `bind` is the task that a task waited for last; `launch_thread` and `launch_ns` are the host thread and the moment
    of its launch if the launch was last. `comm` is the row of `comm_op`, `kernel` the row of `kernel`. `line` names the
    stream or group. `before` is the previous task there; a previous task that was still running on a stream is `beside`
    instead. `called_thread` and `called_ns` are the task's launch, last or not. `step` is the number of the step that
    owns the task, `correlation` that of the call which launched it; `pageable` is 1 for copies from or to pageable
    memory.
    """

    start: Ints
    end: Ints
    component: tuple[str, ...]
    line: tuple[str, ...]
    kernel: Ints
    comm: Ints
    bind: Ints
    before: Ints
    beside: Ints
    step: Ints
    correlation: Ints
    pageable: Ints
    launch_thread: Ints
    launch_ns: Ints
    called_thread: Ints
    called_ns: Ints


def under_way(tasks: Tasks, at_ns: int) -> int:
    """The task that the device works on at a moment: compute first, then the last to end; -1 without any.

    Communication beside compute is hidden: it may have been launched late, into a stream of its own, while the device
    still had much work.
    """
    running = (tasks.start < at_ns) & (tasks.end >= at_ns)
    component = np.array(tasks.component, dtype=object)
    for kinds in (("compute",), ("comm", "copy")):
        found = np.flatnonzero(running & np.isin(component, kinds))
        if len(found):
            return int(found[np.argmax(tasks.end[found])])
    return NONE
