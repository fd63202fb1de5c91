"""The results of comparing two steps: rows of operators, suspects, and the judgement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from hermes.base.message import Message, Word
from hermes.precision import messages as say
from hermes.precision.distance import Distance
from hermes.precision.messages import Deviation
from hermes.precision.missing_operators import MissingOperators
from hermes.precision.operator_names import family
from hermes.precision.recorded_step import RecordedStep


class OperatorState(Word):
    """The result of comparing an operator.

    `carried`: the outputs are as far apart as the inputs explain, behind the first difference. `differ`: the outputs
    are further apart, but the inputs do not allow to blame the operator.
    """

    AGREE = "agree"
    BLAMED = "blamed"
    CARRIED = "carried"
    DIFFER = "differ"
    ONLY_GOLDEN = "only_golden"
    ONLY_TARGET = "only_target"


class SuspicionGround(str, Enum):
    """The evidence behind a suspicion; `hermes.knowledge.confidence` gives the confidence of each kind."""

    EXACT = "precision.exact"
    """Every earlier value agrees in every bit, or the operator's inputs do and its result is far off."""
    ROUNDING = "precision.rounding"
    """Earlier values differ as rounding does, and this operator's result differs by more."""
    NEAR = "precision.near"
    """The operator's result differs by little more than rounding explains."""


class OperatorRow(NamedTuple):
    """A row of the operator table: an operator on both sides, or on one side, with its largest distances."""

    golden: int | None
    target: int | None
    inputs: Distance | None = None
    outputs: Distance | None = None
    tolerance: float = 0.0
    ratio: float = 0.0
    """The distance of the outputs, as a share of the tolerance."""
    state: OperatorState = OperatorState.AGREE


MOST_NOTES = 5
"""The most notes about arguments that differ without visible effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """The operator to blame for a difference, and the reason. `golden` and `target` are indices of operators."""

    golden: int | None
    target: int | None
    kind: Deviation
    why: Message
    ground: SuspicionGround
    ratio: float = 0.0
    at: int = 0
    """The index of the row."""
    inputs: Distance | None = None
    outputs: Distance | None = None
    collectives: int = 0
    """The number of collectives before the operator, which order events on several ranks."""


@dataclass(slots=True)
class Judgement:
    """The result of comparing one step of one rank."""

    rank: int
    step: int
    golden: RecordedStep
    target: RecordedStep
    rows: list[OperatorRow] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    drift: float = 0.0
    """The median relative distance of parameters at the end of the step."""
    updates: dict[str, float] = field(default_factory=dict)
    notes: list[Message] = field(default_factory=list)
    unread: int = 0
    """The number of files that should hold the elements of a tensor and do not."""
    missing: MissingOperators | None = None
    """The part of the golden step that was not compared; None if everything was."""


class StepBefore:
    """The differences that the previous step left: by how much parameters may differ."""

    def __init__(self, updates: dict[str, float] | None, *, first: bool, begins: bool) -> None:
        self.updates = updates or {}
        self.drift = median_of(self.updates)
        self.first = first
        self.begins = begins
        """Whether the recorded job began with this step."""


def median_of(updates: dict[str, float]) -> float:
    """The median distance of parameters; 0 if none is known."""
    known = sorted(updates.values())
    return known[len(known) // 2] if known else 0.0


def badness(one: Distance) -> float:
    """The distance of two values as one number to sort by."""
    if one.what or one.nan_golden != one.nan_target:
        return math.inf
    return one.relative


def names_of(step: RecordedStep, places: list[int]) -> Message:
    """The operators at these indices, by name."""
    found = list(dict.fromkeys(family(step.ops[at].name) for at in places))
    return say.more_names(which=found[:4], n=len(found) - 4) if len(found) > 4 else say.names(which=found)
