"""Finds the first place where two runs part on all ranks and steps, and follows the difference to the loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Blame, Evidence, Finding
from hermes.model.leaf import Risk
from hermes.precision import messages as say
from hermes.precision.judgement_rows import Judgement, OperatorRow, Suspect, SuspicionGround
from hermes.precision.messages import Deviation
from hermes.precision.operator_names import family, is_collective
from hermes.precision.recorded_step import OperatorCall, RecordedStep

_LONGEST_CHAIN = 400
_FARTHEST = 1e9
"""Relative distances above this only mean that the golden value is almost zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDivergence:
    """The first place where two runs part; values that were not recorded are empty or None."""

    operator: str
    module: str
    line: str
    code: str
    rank: int
    step: int
    phase: str
    kind: Deviation
    why: Message
    ground: SuspicionGround
    inputs_apart: float | None
    outputs_apart: float | None
    tolerated: float | None
    side: str = "both"
    """`golden` or `target` if only one side ran the operator."""

    @property
    def message(self) -> Message:
        """The message: where the runs part first, the kind of the difference, and why."""
        return say.part(
            operator=self.operator, module=self.module or None, line=self.line or None, rank=self.rank,
            step=self.step, phase=say.phase(self.phase), kind=self.kind.message, why=self.why,
        )  # fmt: skip

    @property
    def finding(self) -> Finding:
        """The place as a finding."""
        return Finding(
            code=self.kind.value, about=Risk.WRONG_NUMBERS, message=self.message, ranks=(self.rank,),
            steps=(self.step,), lines=(self.line,) if self.line else (),
            blames=(Blame(self.operator, "operator", self.rank),), confidence=confidence(self.ground.value),
            evidence=tuple(self._evidence()),
        )  # fmt: skip

    def _evidence(self) -> Iterator[Evidence]:
        for what, value, threshold in (
            (say.INPUTS_APART, self.inputs_apart, None), (say.OUTPUTS_APART, self.outputs_apart, self.tolerated)
        ):  # fmt: skip
            if value is not None and value < _FARTHEST:
                yield Evidence(what=what, value=value, unit="", threshold=threshold, where=self.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceLink:
    """An operator on the way from the first difference to the loss."""

    operator: str
    module: str
    line: str
    apart: float
    amplification: float | None
    """The relative distance of the operator's output over that of the operator before."""


def first_of(judgements: list[Judgement]) -> tuple[Judgement, Suspect] | None:
    """The first suspect: of the earliest step; within it with the fewest collectives before; then of the lowest rank.

    A collective is not to blame if its result differs because another rank's input differs: that rank has a suspect
    with no more collectives before it.
    """
    found = [(one, suspect) for one in judgements for suspect in one.suspects[:50]]
    if not found:
        return None
    step = min(one.step for one, _ in found)
    here = [(one, suspect) for one, suspect in found if one.step == step]
    others = [pair for pair in here if not _is_collective(*pair)]
    guilty = [
        (one, suspect) for one, suspect in here
        if not _is_collective(one, suspect)
        or all(other.rank == one.rank or guilt.collectives > suspect.collectives for other, guilt in others)
    ]  # fmt: skip
    # A rank may be blamed for a received value only if no rank had a difference before.
    return min(guilty or here, key=lambda pair: (pair[1].collectives, pair[0].rank, pair[1].at))


def _is_collective(judgement: Judgement, suspect: Suspect) -> bool:
    op = _op(judgement, suspect)
    return op is not None and is_collective(op.name)


def _op(judgement: Judgement, suspect: Suspect) -> OperatorCall | None:
    if suspect.target is not None:
        return judgement.target.ops[suspect.target]
    return judgement.golden.ops[suspect.golden] if suspect.golden is not None else None


def describe(judgement: Judgement, suspect: Suspect) -> FirstDivergence:
    """The place of a suspect, with its operator, module, line and reason."""
    op = _op(judgement, suspect)
    twin = judgement.golden.ops[suspect.golden] if suspect.golden is not None else None
    assert op is not None
    frame = op.frames[0] if op.frames else (twin.frames[0] if twin and twin.frames else None)
    row = judgement.rows[suspect.at] if suspect.at < len(judgement.rows) else None
    side = "target" if suspect.golden is None else "golden" if suspect.target is None else "both"
    size = suspect.outputs.size if suspect.outputs else 0.0
    return FirstDivergence(
        operator=op.parameter or op.name, module=op.module or (twin.module if twin else ""),
        line=str(frame) if frame else "", code=frame.text if frame else "", rank=judgement.rank, step=judgement.step,
        phase=op.phase, kind=suspect.kind, why=suspect.why, ground=suspect.ground,
        inputs_apart=_finite(suspect.inputs.relative) if suspect.inputs else None,
        outputs_apart=_finite(suspect.outputs.relative) if suspect.outputs else None,
        tolerated=_finite(row.tolerance / size) if row is not None and size else None, side=side,
    )  # fmt: skip


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def chain(judgement: Judgement, suspect: Suspect) -> list[DivergenceLink]:
    """Operators from the first difference to the last value of the forward pass, or to the step's last value if it
    begins later."""
    begin = suspect.target if suspect.target is not None else _after(judgement, suspect)
    if begin is None:
        return []
    rows = {row.target: row for row in judgement.rows if row.target is not None}
    return _links(judgement, _way(judgement, begin), rows)


def _way(judgement: Judgement, begin: int) -> list[int]:
    """The indices of operators on the shortest way from one operator to the loss."""
    step = judgement.target
    goal = _goal(judgement, step.ops[begin].phase)
    came = {begin: -1}
    users: dict[_Mark, list[int]] = {}
    for op in step.ops[begin:]:
        for number in op.inputs:
            for mark in _marks(step, number):
                users.setdefault(mark, []).append(op.number)
    order = [begin]
    for at in order:
        if at == goal:
            break
        marks = [mark for number in step.ops[at].outputs for mark in _marks(step, number)]
        after = [user for mark in marks for user in users.get(mark, [])]
        for user in after:
            if user > at and user not in came:
                came[user] = at
                order.append(user)
    if goal not in came:
        goal = max(came)
    path: list[int] = []
    at = goal
    while at != -1 and len(path) < _LONGEST_CHAIN:
        path.append(at)
        at = came[at]
    return path[::-1]


def _links(judgement: Judgement, path: list[int], rows: dict[int, OperatorRow]) -> list[DivergenceLink]:
    found: list[DivergenceLink] = []
    before: float | None = None
    for at in path:
        op, row = judgement.target.ops[at], rows.get(at)
        if row is None or row.outputs is None or row.outputs.known == "none":
            continue
        apart = row.outputs.relative
        if not math.isfinite(apart):
            continue
        if before is not None and apart == before:
            continue  # views and copies pass the distance on unchanged
        gain = apart / before if before else None
        found.append(
            DivergenceLink(operator=family(op.name), module=op.module, line=op.line, apart=apart, amplification=gain)
        )
        before = apart
    return found


_Mark = int | tuple[str, int, float, float]
"""What an operator's result and the input of a later operator have in common."""


def _marks(step: RecordedStep, number: int) -> list[_Mark]:
    """The base of a value; if not every operator was recorded, also the properties that a view does not change."""
    value = step.values[number]
    depth = 0
    while value.view is not None and depth < 64:
        value, depth = step.values[value.view.base], depth + 1
    if step.whole or value.stats is None or not value.stats[0] < value.stats[1]:
        return [value.number]
    return [value.number, (value.dtype, value.count, value.stats[0], value.stats[1])]


def _after(judgement: Judgement, suspect: Suspect) -> int | None:
    """The index of the first target operator after a place where one is missing."""
    return next((row.target for row in judgement.rows[suspect.at :] if row.target is not None), None)


def _goal(judgement: Judgement, phase: str) -> int:
    """The index of the last operator of the phase that gives a single floating-point number: the loss."""
    step = judgement.target
    last = -1
    for op in step.ops:
        if op.phase == phase:
            last = op.number
    if phase != "forward":
        return last
    for op in reversed(step.ops):
        if (
            op.phase == "forward"
            and op.inputs
            and family(op.name) not in ("ones_like", "detach", "fill")
            and any(
                step.values[one].count == 1 and step.values[one].dtype.startswith(("float", "bfloat"))
                for one in op.outputs
            )
        ):
            return op.number
    return last
