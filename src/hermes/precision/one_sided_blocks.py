"""Finds blocks of operators that only one of two runs has, and judges the effect of a block on later values."""

from __future__ import annotations

import math

from hermes.base.message import Message
from hermes.precision import messages as say
from hermes.precision.distance import Distance, Distances
from hermes.precision.judgement_rows import Suspect, SuspicionGround, names_of
from hermes.precision.messages import Deviation, Side
from hermes.precision.operator_names import arithmetic, family, is_cast
from hermes.precision.operator_signs import (
    birth,
    casts,
    detach_only_in_target,
    only_casts,
    other_module,
    rounds,
    same_names,
    sources,
)
from hermes.precision.read.tensors import Files
from hermes.precision.recorded_step import OperatorCall, RecordedStep
from hermes.precision.rounding_tolerance import roundoff

_SHORT = 2.0**-12


class OneSidedBlocks:
    """Finds, in two aligned steps, the block of operators before a value that differs."""

    def __init__(
        self,
        golden: RecordedStep,
        target: RecordedStep,
        pairs: list[tuple[int | None, int | None]],
        distances: Distances,
        files: Files,
    ) -> None:
        self._golden = golden
        self._target = target
        self._pairs = pairs
        self._mate = {one: two for one, two in pairs if one is not None and two is not None}
        self._other = {two: one for one, two in self._mate.items()}
        self._distances = distances
        self._files = files

    def judge(
        self,
        one: OperatorCall,
        two: OperatorCall,
        makers: tuple[int | None, int | None],
        distance: Distance,
        ground: SuspicionGround,
    ) -> Suspect | None:
        """Blame unpaired operators that stand between a value that agrees and this value, which differs."""
        first, steps = sources(self._golden, makers[0], self._mate)
        second, more = sources(self._target, makers[1], self._other)
        passed = self._passed(first, second)
        unit = max(roundoff(self._golden.values[one.inputs[0]].dtype) if one.inputs else 0.0, 2.0**-24)
        made = [(self._golden, at) for at in steps] + [(self._target, at) for at in more]
        rounding = 2 + sum(rounds(step, at, unit) for step, at in made)
        # Sums of short types are kept in float32: their order changes no more than the last digits.
        tolerated = (16 if unit < _SHORT else 4) * unit * rounding + 40 * passed
        bad = distance.what not in ("", "dtype") or distance.nan_golden != distance.nan_target
        if distance.relative <= tolerated and not bad and distance.what != "dtype":
            return None
        if passed > 0.05 and not bad:
            return None
        return self.blame(one, two, makers, (steps, more), distance, ground)

    def blame(
        self, one: OperatorCall, two: OperatorCall, makers: tuple[int | None, int | None],
        between: tuple[list[int], list[int]],
        distance: Distance, ground: SuspicionGround,
    ) -> Suspect:  # fmt: skip
        """Blame the operators between a value that agrees and the value that differs, and say why."""
        steps, more = between
        if distance.what == "dtype":
            return _suspect(ground, distance, one, two, Deviation.ANOTHER_DTYPE, self._cast_detail(one, two))
        cast = casts(self._target, more), casts(self._golden, steps)
        if (cast[0] or cast[1]) and only_casts(self._golden, steps, self._target, more):
            side = Side.TARGET if cast[0] else Side.GOLDEN
            why = say.goes_through(side=side.message, dtype=cast[0] or cast[1])
            at = None if more else self._golden.ops[steps[0]], self._target.ops[more[0]] if more else None
            return _suspect(ground, distance, *at, Deviation.ANOTHER_DTYPE, why)
        extra = [at for at in more if not is_cast(self._target.ops[at].name)] or more
        missing = [at for at in steps if not is_cast(self._golden.ops[at].name)] or steps
        if not (extra and missing) and (swapped := self._swapped(one, makers, extra, missing)):
            return _suspect(ground, distance, one, two, Deviation.ANOTHER_FORMULA, swapped)
        if (
            missing
            and not extra
            and one.phase == "backward"
            and (gone := detach_only_in_target(self._target, self._pairs)) is not None
        ):
            why = say.detached(operators=names_of(self._golden, missing))
            return _suspect(ground, distance, None, self._target.ops[gone], Deviation.DROPPED_GRADIENT, why)
        kind, why = self._of_block(one, extra, missing, cast)
        place = extra[0] if extra else None
        if distance.nan_target > distance.nan_golden:
            # An operator with an infinite argument, such as a mask, gives infinity as asked.
            made = birth(self._target, extra, self._files)
            kind, place = (kind, place) if made is None and extra else (Deviation.NOT_FINITE, made)
        golden = self._golden.ops[missing[0]] if missing else (None if extra else one)
        target = self._target.ops[place] if place is not None else (None if missing else two)
        return _suspect(ground, distance, golden, target, kind, why)

    def _of_block(
        self, one: OperatorCall, extra: list[int], missing: list[int], cast: tuple[str, str]
    ) -> tuple[Deviation, Message]:
        """The kind of difference, and the reason, for a block that one side runs, or that the sides run differently."""
        if extra and missing:
            names = names_of(self._golden, missing), names_of(self._target, extra)
            if cast[0] != cast[1] and same_names(self._golden, missing, self._target, extra):
                kinds = [say.named_dtype(dtype=name) if name else say.FULL_DIGITS for name in cast]
                return Deviation.ANOTHER_DTYPE, say.computed_in(operators=names[1], golden=kinds[1], target=kinds[0])
            module = other_module(self._golden, missing, self._target, extra)
            return Deviation.ANOTHER_FORMULA, module or say.in_place_of(golden=names[0], target=names[1])
        if extra:
            return Deviation.INSERTED_OPERATOR, say.only_target(operators=names_of(self._target, extra))
        if missing:
            return Deviation.MISSING_OPERATOR, say.only_golden(operators=names_of(self._golden, missing))
        return Deviation.ANOTHER_INPUT, say.takes_another(operator=family(one.name))

    def _swapped(
        self, one: OperatorCall, makers: tuple[int | None, int | None], extra: list[int], missing: list[int]
    ) -> Message | None:
        """The message that an operator takes results of the same operators in another order; None if it does not.

        An unpaired operator before it on one side runs elsewhere on the other side.
        """
        step, other, alone = (self._target, self._golden, extra) if extra else (self._golden, self._target, missing)
        paired = self._mate if extra else self._other
        lonely = {family(op.name) for op in other.ops if op.number not in paired and op.phase == one.phase}
        names = [family(step.ops[at].name) for at in alone if arithmetic(step.ops[at].name) != "moves"]
        if not names or None in makers or not lonely.issuperset(names):
            return None
        took = [
            family(run.ops[at].name)
            for run, at in zip((self._golden, self._target), makers, strict=True)
            if at is not None
        ]
        return say.swapped(operator=family(one.name), golden=took[0], target=took[1]) if len(took) == 2 else None

    def _cast_detail(self, one: OperatorCall, two: OperatorCall) -> Message:
        pairs = zip(one.inputs, two.inputs, strict=False)
        kinds = [(self._golden.values[a].dtype, self._target.values[b].dtype) for a, b in pairs]
        first = next(((a, b) for a, b in kinds if a != b), kinds[0] if kinds else ("", ""))
        return say.takes_dtype(operator=family(one.name), golden=first[0], target=first[1])

    def _passed(self, first: list[int], second: list[int]) -> float:
        """The largest relative distance between the inputs of a block, over all pairs of inputs."""
        mates = {}
        for number in first:
            by = self._golden.values[number].by
            if by is not None and by in self._mate:
                outputs = self._golden.ops[by].outputs
                if number in outputs:
                    mates[number] = self._target.ops[self._mate[by]].outputs[outputs.index(number) :][:1]
        found = [self._distances.of(one, two[0]).relative for one, two in mates.items() if two]
        return max((one for one in found if math.isfinite(one)), default=0.0)


def _suspect(
    ground: SuspicionGround,
    distance: Distance,
    one: OperatorCall | None,
    two: OperatorCall | None,
    kind: Deviation,
    why: Message,
) -> Suspect:
    return Suspect(
        golden=None if one is None else one.number, target=None if two is None else two.number, kind=kind, why=why,
        ground=ground, inputs=distance, ratio=math.inf,
    )  # fmt: skip
