"""Measures how long a rank waits for the others in DDP's own reductions, which start in C++, from DDP's timers.

Only on a processor: on a device the host does not wait for the reductions. DDP times a step on request, and returns its
timers in a dictionary that takes 60 us to make. So only some short steps are read, and the steps between are assumed to
be alike.
"""

from __future__ import annotations

import time
from typing import Any

_SHARE = 200
"""Reading DDP's timers takes at most 1/200 of the time."""
_COST_NS = 60_000
_now = time.perf_counter_ns


class DdpWaits:
    """The DDP modules of this process that train on a processor."""

    def __init__(self, models: list[Any]) -> None:
        self._models = [model for model in models if _timed(model)]
        self._latest = 0
        self._cost = _COST_NS
        self._next_ns = 0

    @property
    def any(self) -> bool:
        """Whether there is a DDP module whose timers can be read."""
        return bool(self._models)

    def wait_ns(self, now: int) -> int:
        """Nanoseconds that the stepping thread waited in the reductions of the last step that DDP has timed."""
        if now >= self._next_ns:
            start = _now()
            self._latest = sum(map(_waited, self._models))
            # The smallest value counts: the operating system may have taken the core from the thread meanwhile.
            self._cost = min(self._cost, _now() - start)
            self._next_ns = now + _SHARE * self._cost
        return self._latest


def _timed(model: Any) -> bool:
    """Make DDP time each step, if the module's parameters are on the host; returns whether DDP does."""
    try:
        if any(not parameter.is_cpu for parameter in model.parameters()):
            return False
        model._set_ddp_runtime_logging_sample_rate(1)
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


def _waited(model: Any) -> int:
    """Nanoseconds from the end of the gradients' computation until the last gradient was reduced."""
    try:
        facts = model._get_ddp_logging_data()
        return max(int(facts["backward_comm_time"]) - int(facts["backward_compute_comm_overlap_time"]), 0)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
        return 0
