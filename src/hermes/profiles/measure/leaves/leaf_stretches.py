"""Stretches of the steps with their leaves, before they are summed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hermes.model.leaf_time import How
from hermes.profiles.measure.leaves.nesting import Bools, Ints

HOWS = tuple(How)
AT = {how: place for place, how in enumerate(HOWS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafStretches:
    """Stretches of the steps by leaf, as equally long arrays; `start` and `ns` are in nanoseconds.

    `of` is the gap or the task, `what` the call that names the stretch, and `site` the call around it (-1: none).
    `leaf` and `how` are indices of `LEAVES` and `HOWS`.
    """

    start: Ints
    ns: Ints
    of: Ints
    leaf: Ints
    how: Ints
    what: Ints
    site: Ints

    def __len__(self) -> int:
        return len(self.start)

    def __post_init__(self) -> None:
        # Use small integers: a large capture has a million stretches.
        for name, kind in (
            ("of", np.int32),
            ("leaf", np.int8),
            ("how", np.int8),
            ("what", np.int32),
            ("site", np.int32),
        ):
            object.__setattr__(self, name, getattr(self, name).astype(kind, copy=False))

    def at(self, places: Ints | Bools) -> LeafStretches:
        """The stretches at some indices, or those that a mask selects."""
        return LeafStretches(**{name: getattr(self, name)[places] for name in LeafStretches.__slots__})


def join_stretches(parts: list[LeafStretches]) -> LeafStretches:
    """Concatenate lists of stretches into one."""
    return LeafStretches(
        **{name: np.concatenate([getattr(one, name) for one in parts]) for name in LeafStretches.__slots__}
    )
