"""Device tasks as arrays: when each ran, where, and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.lanes import NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Device tasks by start: equally long arrays; -1 where there is none.

    `bind` is the task that a task waited for last, `launch_thread` and `launch_ns` the host thread and the moment of
    its launch if that was last. `comm` is the row of `comm_op`, `kernel` that of `kernel`. `line` names the stream or
    group, `before` is the task before it there, or, where that one of a stream was still under way, `beside` is;
    `called_thread` and `called_ns` are its launch, last or not. `step` is the number of the step that owns it,
    `correlation` that of the call which launched it; `pageable` is 1 for copies from or to pageable memory.
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
    """The work that the device does at a moment, of several compute first and then the last to end; -1 without any.

    Communication beside compute is hidden: it may have been launched late, into a stream of its own, while the device
    had work for long.
    """
    running = (tasks.start < at_ns) & (tasks.end >= at_ns)
    component = np.array(tasks.component, dtype=object)
    for kinds in (("compute",), ("comm", "copy")):
        found = np.flatnonzero(running & np.isin(component, kinds))
        if len(found):
            return int(found[np.argmax(tasks.end[found])])
    return NONE
