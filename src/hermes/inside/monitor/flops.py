"""Counts the floating-point operations of a step with torch's own counter: in two steps, which must agree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_WAIT = 10
"""Steps before the first counted step: early steps build what later steps use."""
_TRIES = 6
"""Largest number of counted steps, until two in a row agree."""


class FlopCount:
    """A counter of the operations (FLOPs) of whole steps, which ends when two steps in a row have the same count.

    torch's `FlopCounterMode` sees each operator as it is called and changes none; a counted step takes a few times as
    long, and must be marked. If the counts differ in every step, as with texts of any length, there is no result.
    """

    def __init__(self, done: Callable[[int], None], say: Callable[[str], None]) -> None:
        """`done` is called once, with the number of operations of a step."""
        self._done = done
        self._say = say
        self._wait, self._tries = _WAIT, _TRIES
        self._mode: Any = None
        self._last = 0
        self.over = False

    def step_ended(self) -> bool:
        """Note the end of a step; returns whether the next step is counted. Must not be called once the count is
        `over`."""
        if self._wait:
            self._wait -= 1
            return False
        if self._mode is not None and self._counted():
            return False
        if self._tries == 0:
            return self._end("its steps differ in their FLOPs")
        if "torch" not in sys.modules:
            return self._end("PyTorch is not loaded")
        # Compiled code is no operator of torch: the count would be too small.
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is not None and getattr(compiler, "counters", {}).get("frames"):
            return self._end("torch.compile hides operators")
        self._tries -= 1
        from importlib import import_module

        self._mode = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
        self._mode.__enter__()
        return True

    def _counted(self) -> bool:
        """End the counting of a step; returns whether its count equals that of the step before."""
        mode, self._mode = self._mode, None
        mode.__exit__(None, None, None)
        flops, last = int(mode.get_total_flops()), self._last
        self._last = flops
        if flops <= 0 or flops != last:
            return False
        self.over = True
        self._done(flops)
        return True

    def _end(self, why: str) -> bool:
        self.over = True
        self._say(f"the FLOPs of a step are not counted: {why}")
        return False

    def close(self) -> None:
        """Stop counting in the middle of a step."""
        self.over = True
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)
