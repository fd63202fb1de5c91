"""The form of an expert's opinion on one recorded profile."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.model.leaf import Leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The gain of the published fix: the step takes `share` less, according to `source`."""

    share: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """An expert's opinion on a profile: the first leaf, with the figures that it rests on.

    `path` is a file, a folder or a pattern below the folder of profiles. `leaf` takes `share` of all steps. `also` is
    right too: its share differs by less than a tenth of the step. `rank` is where the cause is, None where one rank was
    recorded or no rank stands out. `devices` are the kinds of chips whose names may stand in advice. `inference`:
    advice on training is out of place.
    """

    name: str
    path: str
    job: str
    leaf: Leaf
    share: float
    evidence: str
    devices: tuple[str, ...]
    also: Leaf | None = None
    also_share: float = 0.0
    rank: int | None = None
    inference: bool = False
    measured: Measured | None = None
