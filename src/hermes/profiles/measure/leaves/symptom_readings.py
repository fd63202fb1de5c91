"""Declares the readings of the leaves of an idle device that symptoms of cases compare."""

from __future__ import annotations

from hermes.model.leaf import IDLE
from hermes.model.leaf_time import LeafTime
from hermes.model.symptom import WINDOW, ratio

ratio(
    LeafTime, "idle.share_of", "the device has nothing to do, by leaf", "step_ns", WINDOW, by="leaf",
    of=tuple(sorted(leaf.value for leaf in IDLE)), total=True, absent=0.0,
)  # fmt: skip
