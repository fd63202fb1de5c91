"""Counts the floating-point operations of a step with torch's own counter: in two steps, which must agree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_WAIT = 10
"""Steps before the first that is counted: the first ones build what later ones use."""
_TRIES = 6
"""Steps that are counted at most, until two in a row agree."""


class FlopCount:
    """Counts whole steps, from the end of one to the end of the next, until two in a row have the same number.

    torch's `FlopCounterMode` sees each operator as it is called and changes none; a counted step takes a few times as
    long, and is to be marked. Steps that differ, as with texts of any length, have no number: then there is none.
    """

    def __init__(self, done: Callable[[int], None], say: Callable[[str], None]) -> None:
        """`done` is called once, with the operations of a step."""
        self._done = done
        self._say = say
        self._wait, self._tries = _WAIT, _TRIES
        self._mode: Any = None
        self._last = 0
        self.over = False

    def step_ended(self) -> bool:
        """A step has ended; whether the next one is counted. Not to be called once it is `over`."""
        if self._wait:
            self._wait -= 1
            return False
        if self._mode is not None and self._counted():
            return False
        if self._tries == 0:
            return self._end("its steps differ in their FLOPs")
        if "torch" not in sys.modules:
            return self._end("PyTorch is not loaded")
        # What a compiler made is no operator of torch: the number would be too small.
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is not None and getattr(compiler, "counters", {}).get("frames"):
            return self._end("torch.compile hides operators")
        self._tries -= 1
        from importlib import import_module

        self._mode = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
        self._mode.__enter__()
        return True

    def _counted(self) -> bool:
        """The step that was counted has ended; whether its number is the one before it too."""
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
        """Stop in the middle of a step."""
        self.over = True
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)
