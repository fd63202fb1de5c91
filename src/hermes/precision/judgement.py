"""What a comparison finds: rows of operators, suspects, and the judgement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from hermes.base.message import Message, Word
from hermes.precision import messages as say
from hermes.precision.distance import Distance
from hermes.precision.messages import Deviation
from hermes.precision.missing import Missing
from hermes.precision.model import Step
from hermes.precision.names import family


class OperatorState(Word):
    """What became of an operator.

    `carried`: as far apart as its inputs explain, behind the first difference; `differ`: further apart than that, but
    its inputs are not fit to blame it.
    """

    AGREE = "agree"
    BLAMED = "blamed"
    CARRIED = "carried"
    DIFFER = "differ"
    ONLY_GOLDEN = "only_golden"
    ONLY_TARGET = "only_target"


class Ground(str, Enum):
    """What a suspicion rests on; how sure that is stands in `hermes.knowledge.confidence`."""

    EXACT = "precision.exact"
    """Every value before it agrees in every bit, or its own inputs do and its result is far off."""
    ROUNDING = "precision.rounding"
    """What came before differs as rounding does, and this differs by more."""
    NEAR = "precision.near"
    """It differs by little more than rounding explains."""


class Row(NamedTuple):
    """One line of the table: an operator on both sides, or on one, with the worst of its distances."""

    golden: int | None
    target: int | None
    inputs: Distance | None = None
    outputs: Distance | None = None
    tolerance: float = 0.0
    ratio: float = 0.0
    """The outputs' distance, of what is tolerated."""
    state: OperatorState = OperatorState.AGREE


MOST_NOTES = 5
"""Arguments that differ without a difference that shows: so many are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """What is to blame, and why. `golden` and `target` are places of operators."""

    golden: int | None
    target: int | None
    kind: Deviation
    why: Message
    ground: Ground
    ratio: float = 0.0
    at: int = 0
    """Place of the row."""
    inputs: Distance | None = None
    outputs: Distance | None = None
    collectives: int = 0
    """Collectives before it, which order what happens on several ranks."""


@dataclass(slots=True)
class Judgement:
    """What was found in one step of one rank."""

    rank: int
    step: int
    golden: Step
    target: Step
    rows: list[Row] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    drift: float = 0.0
    """How far parameters are apart at the end of the step: the median."""
    updates: dict[str, float] = field(default_factory=dict)
    notes: list[Message] = field(default_factory=list)
    unread: int = 0
    """Files that should hold the elements of a tensor each and do not."""
    missing: Missing | None = None
    """What of the golden step was not compared; None where all of it was."""


class Before:
    """What the step before this one left: by how much parameters are allowed to differ."""

    def __init__(self, updates: dict[str, float] | None, *, first: bool, begins: bool) -> None:
        self.updates = updates or {}
        self.drift = median_of(self.updates)
        self.first = first
        self.begins = begins
        """Whether the job began with this step."""


def median_of(updates: dict[str, float]) -> float:
    """How far parameters are apart: the middle one; 0 where none is known."""
    known = sorted(updates.values())
    return known[len(known) // 2] if known else 0.0


def badness(one: Distance) -> float:
    """How far apart two values are, as a number to order by."""
    if one.what or one.nan_golden != one.nan_target:
        return math.inf
    return one.relative


def names_of(step: Step, places: list[int]) -> Message:
    """The operators at these places, by name."""
    found = list(dict.fromkeys(family(step.ops[at].name) for at in places))
    return say.more_names(which=found[:4], n=len(found) - 4) if len(found) > 4 else say.names(which=found)
