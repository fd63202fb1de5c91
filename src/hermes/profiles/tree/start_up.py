"""Says how much of a capture without marked steps is the start of the job."""

from __future__ import annotations

from hermes.model.leaf import Leaf
from hermes.model.typical_step import JobSteps
from hermes.profiles.tree.leaf_kinds import MOSTLY, LeafKinds

_ONCE = (Leaf.FIRST_CALL, Leaf.COMPILING)


def start_up(steps: JobSteps, kinds: LeafKinds) -> float:
    """The share of a capture before its first device task, or in first calls and compiling, whichever is more.

    It is 0 if it is less than half of the capture, or if steps were marked: then the start is no part of the steps.
    """
    longest = steps.slowest
    if longest is None or steps.marked or not steps.devices:
        return 0.0
    once = sum(kind.share for kind in kinds.every if kind.leaf in _ONCE)
    share = max((longest.preparing_ns or 0) / longest.window_ns, once)
    return share if share >= MOSTLY else 0.0
