"""What makes no two runs alike: times that spread, stalls of the host, clocks that are apart, events that were lost.

The spread of kernels and transfers is that of a normal distribution of logarithms with a tail, as on shared machines;
the same job draws the same numbers.
"""

from __future__ import annotations

import math
import random

_TAIL, _LONGEST = 1 / 400, 3.0
_STALL, _STALL_NS = 1 / 5_000, (50_000, 400_000)
_APART_NS = 300_000
_LOST = 1 / 1_000
_HOST = 2.0


class Noise:
    """Draws for one rank; `percent` is the spread of kernels and transfers, and half of that of the host's calls."""

    def __init__(self, seed: int, rank: int, percent: int) -> None:
        self._spread = percent / 100
        self._name = f"{seed}/{rank}"
        self._device, self._host = random.Random(f"device/{self._name}"), random.Random(f"host/{self._name}")

    def begin(self, step: int) -> None:
        """Draw the noise of this step alone: the added time of a fault leaves the next step unchanged."""
        self._device.seed(f"device/{self._name}/{step}")
        self._host.seed(f"host/{self._name}/{step}")

    def device_ns(self, ns: int) -> int:
        """How long a kernel or transfer takes that usually takes so long."""
        if not self._spread:
            return ns
        longer = self._device.uniform(1, _LONGEST) if self._device.random() < _TAIL else 1.0
        return round(ns * longer * math.exp(self._device.gauss(0, self._spread)))

    def host_ns(self, ns: int) -> int:
        """How long the host takes for what usually takes so long."""
        if not self._spread:
            return ns
        stalls = self._host.random() < _STALL
        return round(ns * math.exp(self._host.gauss(0, _HOST * self._spread))) + stalls * self._host.randint(*_STALL_NS)

    @property
    def clock_ns(self) -> int:
        """What the clock of the rank is ahead."""
        return random.Random(f"clock/{self._name}").randint(-_APART_NS, _APART_NS) if self._spread else 0

    def lost(self) -> bool:
        """Whether the profiler lost an event."""
        return bool(self._spread) and self._device.random() < _LOST
