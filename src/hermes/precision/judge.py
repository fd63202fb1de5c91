"""Walks two aligned steps and names the first operator whose inputs agree within noise and whose outputs do not."""

from __future__ import annotations

import math
from dataclasses import replace

from hermes.precision.arguments import difference
from hermes.precision.distance import Distance, Distances
from hermes.precision.inner import Inner, other_step
from hermes.precision.judgement import MOST_NOTES, Before, Judgement, Row, Suspect, badness, median_of, names_of
from hermes.precision.match import align
from hermes.precision.model import Op, Step, Value
from hermes.precision.names import arithmetic, family, is_cast, is_collective, keeps_order, overwrites
from hermes.precision.noise import Noise, roundoff
from hermes.precision.read.tensors import Files
from hermes.precision.signs import (
    birth,
    born,
    casts,
    cut,
    dropped,
    far_beyond,
    inputs_agree,
    kind_of,
    only_casts,
    only_rounding,
    other_module,
    other_place,
    other_result,
    root_maker,
    rounds,
    same_names,
    sources,
    suspect,
    unfilled,
)

_DRIFT = 10.0
_MOST_BLAMED = 200
_CARRIED = 1e-6
_BUFFER = 1e-2
_SHORT = 2.0**-12


def judge(
    golden: Step, target: Step, files: Files, *, before: Before, repeated: dict[int, float] | None = None, jobs: int = 1
) -> Judgement:
    """Compare one step of one rank; elements by so many processes where they are many."""
    return _Judge(golden, target, files, before, repeated, jobs).run()


class _Judge:
    def __init__(
        self, golden: Step, target: Step, files: Files, before: Before, repeated: dict[int, float] | None, jobs: int
    ) -> None:
        self._golden = golden
        self._target = target
        self._before = before
        self._noise = Noise(golden, target, repeated)
        self._distances = Distances(golden, target, files, jobs)
        self._pairs = align(golden, target)
        self._mate = {one: two for one, two in self._pairs if one is not None and two is not None}
        self._other = {two: one for one, two in self._mate.items()}
        self._found = Judgement(rank=golden.rank, step=golden.step, golden=golden, target=target)
        self._exact = True
        self._collectives = 0
        self._seen: set[tuple[int, int]] = set()
        self._inner = Inner(golden)
        self._unfilled = unfilled(golden), unfilled(target)

    def run(self) -> Judgement:
        """All rows, and who is to blame."""
        wanted = []
        for one, two in self._mate.items():
            a, b = self._golden.ops[one], self._target.ops[two]
            wanted += list(zip(a.inputs, b.inputs, strict=False)) + list(zip(a.outputs, b.outputs, strict=False))
        self._distances.prepare(wanted)
        for at, (golden, target) in enumerate(self._pairs):
            if golden is not None and target is not None:
                self._pair(at, self._golden.ops[golden], self._target.ops[target])
            else:
                state = "only golden" if target is None else "only target"
                self._found.rows.append(Row(golden=golden, target=target, state=state))
                self._other_collective(at)
        step = None if self._found.suspects else other_step(self._golden, self._target, self._mate, self._distances)
        if step is not None:
            row = next(at for at, (one, _) in enumerate(self._pairs) if one == step.golden)
            self._found.suspects.append(replace(step, at=row))
            self._found.rows[row] = self._found.rows[row]._replace(state="blamed")
        self._found.drift = median_of(self._found.updates) if self._found.updates else self._before.drift
        return self._found

    def _other_collective(self, at: int) -> None:
        """Blame a collective that one side runs in the place of another one, where their results differ."""
        sides = [*self._pairs[max(at - 1, 0) : at + 1]]
        golden = next((self._golden.ops[one] for one, two in sides if two is None and one is not None), None)
        target = next((self._target.ops[two] for one, two in sides if one is None and two is not None), None)
        if golden is None or target is None or not (is_collective(golden.name) and is_collective(target.name)):
            return
        apart = [self._distances.of(*pair) for pair in zip(golden.outputs, target.outputs, strict=False)]
        if all(one.equal or one.known == "none" for one in apart):
            return
        why = f"{family(target.name)} in the place of {family(golden.name)}"
        sure = "certain" if self._exact else "likely"
        self._found.suspects.append(
            Suspect(golden=golden.number, target=target.number, kind="another reduction over ranks", why=why, at=at,
                    confidence=sure, outputs=max(apart, key=badness), collectives=self._collectives, ratio=math.inf)
        )  # fmt: skip

    # -- one pair

    def _pair(self, at: int, one: Op, two: Op) -> None:
        of = self._distances.of
        read = self._read(one, two)
        inputs = [of(*pair) for pair in read]
        outputs = [of(*pair) for pair in self._filled(list(zip(one.outputs, two.outputs, strict=False)))]
        worst_in = inputs[0] if len(inputs) == 1 else max(inputs, key=badness, default=None)
        self._collectives += is_collective(one.name)
        suspect = self._inputs_to_blame(one, two, read, inputs)
        ratio, worst, tolerance = self._outputs_ratio(one, two, outputs, inputs)
        if suspect is None:
            suspect = self._operator_to_blame(at, one, two, inputs, worst, ratio)
            if suspect is None and not self._found.suspects:
                self._tell(one, two)
        explained = worst is not None and self._inner.explains(one, worst)
        agree = (ratio <= 1 or explained) and not (worst and worst.what and worst.what != "dtype")
        state = "blamed" if suspect and suspect.golden == one.number else "agree" if agree else "differ"
        apart = worst.relative if worst is not None else 0.0
        if state == "agree" and apart > _CARRIED and (self._found.suspects or ratio > 1):
            state = "carried"
        self._found.rows.append(
            Row(golden=one.number, target=two.number, inputs=worst_in, outputs=worst, tolerance=tolerance, ratio=ratio,
                state=state)
        )  # fmt: skip
        if suspect is not None and len(self._found.suspects) < _MOST_BLAMED:
            self._found.suspects.append(replace(suspect, at=at, collectives=self._collectives))
        self._inner.add(one, inputs, outputs)
        if self._exact and any(not one.equal and one.known != "none" for one in outputs):
            self._exact = False
        if one.phase == "update" and worst is not None:
            self._found.updates[one.parameter] = worst.relative

    def _read(self, one: Op, two: Op) -> list[tuple[int, int]]:
        """Pairs of inputs that are read: not what is written over, nor memory that nobody filled."""
        pairs = list(zip(one.inputs, two.inputs, strict=False))
        if overwrites(one.name):
            pairs = pairs[1:]
        return self._filled(pairs)

    def _filled(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        first, second = self._unfilled
        if not first or not second:
            return pairs
        return [pair for pair in pairs if not (pair[0] in first and pair[1] in second)]

    def _outputs_ratio(
        self, one: Op, two: Op, outputs: list[Distance], inputs: list[Distance]
    ) -> tuple[float, Distance | None, float]:
        if not outputs:
            return 0.0, None, 0.0
        if one.phase in ("gradient", "update"):
            # They show values that operators made; only what made them can be to blame.
            worst = max(outputs, key=badness)
            tolerance = self._noise.tolerance(one, two, 0, worst, [worst])
            return (worst.apart / tolerance if tolerance else 0.0), worst, tolerance
        found = []
        for at, out in enumerate(outputs):
            tolerance = self._noise.tolerance(one, two, at, out, inputs)
            if out.nan_golden != out.nan_target or out.what == "shape" or out.what == "fingerprint":
                ratio = math.inf
            else:
                ratio = out.apart / tolerance if tolerance else (math.inf if out.apart else 0.0)
            found.append((ratio, out, tolerance))
        return found[0] if len(found) == 1 else max(found, key=lambda one: one[0])

    def _operator_to_blame(
        self, at: int, one: Op, two: Op, inputs: list[Distance], out: Distance | None, ratio: float
    ) -> Suspect | None:
        if one.phase == "gradient" and len(one.outputs) != len(two.outputs):
            side = "target" if one.outputs else "golden run"
            return dropped(one, two, side, cut(self._target, self._pairs))
        if ratio <= 1 and one.phase != "gradient" and (out is None or not out.what) and one.args == two.args:
            return None
        different = difference(one.args, two.args)
        inputs_fine = inputs_agree(inputs) or only_rounding(inputs, ratio)
        inputs_fine = inputs_fine or (bool(different) and out is not None and far_beyond(inputs, out))
        if not self._found.suspects and out is not None and born(inputs, out):
            inputs_fine = True
        if not inputs_fine or out is None or self._inner.explains(one, out):
            return None
        bad = ratio > 1
        if different and not out.equal and (bad or self._clear(different)) and arithmetic(one.name) != "moves":
            return suspect(one, two, "another argument", different, inputs, out, ratio)
        if out.what == "dtype" and not any(one.what == "dtype" for one in inputs):
            kinds = [step.values[op.outputs[0]].dtype for step, op in ((self._golden, one), (self._target, two))]
            return suspect(one, two, "another dtype", f"{kinds[1]} instead of {kinds[0]}", inputs, out, ratio)
        if different and (moved := other_place(self._golden, self._target, one, two)) and inputs_agree(inputs):
            return suspect(one, two, "another argument", f"{moved} {different}", inputs, out, math.inf)
        if not bad or one.phase in ("gradient", "update"):
            return self._inner.gradient(one, two, out)
        if slight := difference(one.args, two.args, same=0.0):
            return suspect(one, two, "another argument", slight, inputs, out, ratio)
        block = self._unknown_source(one, two, inputs)
        return block or suspect(one, two, *kind_of(one, two, out, different), inputs, out, ratio)

    def _unknown_source(self, one: Op, two: Op, inputs: list[Distance]) -> Suspect | None:
        """A block before an input whose distance was not recorded, such as that of a slice."""
        for pair, distance in zip(self._read(one, two), inputs, strict=True):
            makers = self._golden.values[pair[0]].by, self._target.values[pair[1]].by
            if makers[0] is not None and self._mate.get(makers[0]) == makers[1]:
                makers = root_maker(self._golden, pair[0]), root_maker(self._target, pair[1])
            paired = makers[0] is not None and self._mate.get(makers[0]) == makers[1]
            if distance.known in ("none", "order-free statistics") and makers != (None, None) and not paired:
                steps = sources(self._golden, makers[0], self._mate)[1]
                more = sources(self._target, makers[1], self._other)[1]
                names = [self._golden.ops[at].name for at in steps] + [self._target.ops[at].name for at in more]
                if names and (distance.known == "none" or not all(map(keeps_order, names))):
                    return self._blame_block(one, two, makers, (steps, more), distance)
        return None

    # -- its inputs

    def _inputs_to_blame(self, one: Op, two: Op, read: list[tuple[int, int]], inputs: list[Distance]) -> Suspect | None:
        """An input that differs though what made it cannot be paired: a block, or something from outside, is to
        blame."""
        if len(one.inputs) != len(two.inputs) or one.phase == "update":
            return None
        for pair, distance in zip(read, inputs, strict=True):
            if distance.equal or (distance.known == "none" and not distance.what):
                continue
            if pair in self._seen:
                continue
            self._seen.add(pair)
            found = self._source(one, two, pair, distance)
            if found is not None:
                return found
        return None

    def _source(self, one: Op, two: Op, pair: tuple[int, int], distance: Distance) -> Suspect | None:
        first, second = self._golden.values[pair[0]], self._target.values[pair[1]]
        makers = first.by, second.by
        if makers[0] is not None and makers[1] is not None and self._mate.get(makers[0]) == makers[1]:
            return other_result(self._golden, self._target, one, two, pair, self._exact)
        if makers == (None, None):
            # What was not recorded, such as a view, may have made it of what differs by now.
            carried = self._found.suspects and not first.name and not self._golden.whole
            return None if carried else self._outside(one, two, first, distance)
        return self._block(one, two, makers, distance)

    def _outside(self, one: Op, two: Op, value: Value, distance: Distance) -> Suspect | None:
        """A value that no recorded operator made: a parameter, a buffer, a batch or a constant."""
        before = self._before
        if one.phase == "optimizer" and not before.begins:
            return None  # its state is what the steps before left
        if one.phase == "gradient" or (one.phase == "backward" and not value.name):
            return None  # the forward pass that it was kept from lies before what was recorded
        allowed = max(16 * roundoff(value.dtype), _DRIFT * before.drift)
        if value.name in before.updates:
            allowed = max(allowed, 2 * before.updates[value.name])
        elif before.first and not before.begins and value.role:
            allowed = max(allowed, 0.05)
        elif value.role == "buffer" and before.drift:
            # An average of what is close to nothing is mostly rounding, and one of what a layer's parameters made is as
            # far off as they are: an optimizer makes whole steps of gradients that are nothing but rounding.
            allowed = max(allowed, _BUFFER, min(2 * max(before.updates.values(), default=0.0), 0.5))
        bad = distance.nan_golden != distance.nan_target or bool(distance.what)
        if distance.relative <= allowed and not bad:
            return None
        name = f"{value.role} {value.name}" if value.name else "a tensor from outside of the recorded operators"
        kind, why = "another input", f"{name} differs before {family(one.name)}"
        if code := self._inner.between(one, value):
            kind, why = "another formula", code
        if value.role == "buffer":
            why = f"buffer {value.name} differs: it was changed elsewhere, or not changed"
        if distance.what == "dtype":
            kind, why = "another dtype", f"{name} is {self._dtype_of(two, value, one)} instead of {value.dtype}"
        sure = "certain" if self._exact else "likely"
        return Suspect(golden=one.number, target=two.number, kind=kind, why=why, confidence=sure, inputs=distance)

    def _dtype_of(self, two: Op, value: Value, one: Op) -> str:
        at = list(one.inputs).index(value.number)
        return self._target.values[two.inputs[at]].dtype

    def _block(self, one: Op, two: Op, makers: tuple[int | None, int | None], distance: Distance) -> Suspect | None:
        """Operators that only one side has stand between an agreeing value and this one."""
        first, steps = sources(self._golden, makers[0], self._mate)
        second, more = sources(self._target, makers[1], self._other)
        passed = self._passed(first, second)
        unit = max(roundoff(self._golden.values[one.inputs[0]].dtype) if one.inputs else 0.0, 2.0**-24)
        made = [(self._golden, at) for at in steps] + [(self._target, at) for at in more]
        rounding = 2 + sum(rounds(step, at, unit) for step, at in made)
        # Sums of short types are kept in float32: their order shows in no more than the last digits.
        tolerated = (16 if unit < _SHORT else 4) * unit * rounding + 40 * passed
        bad = distance.what not in ("", "dtype") or distance.nan_golden != distance.nan_target
        if distance.relative <= tolerated and not bad and distance.what != "dtype":
            return None
        if passed > 0.05 and not bad:
            return None
        return self._blame_block(one, two, makers, (steps, more), distance)

    def _blame_block(
        self, one: Op, two: Op, makers: tuple[int | None, int | None], between: tuple[list[int], list[int]],
        distance: Distance,
    ) -> Suspect:  # fmt: skip
        steps, more = between
        sure = "certain" if self._exact else "likely"
        if distance.what == "dtype":
            return Suspect(golden=one.number, target=two.number, kind="another dtype", why=self._cast_detail(one, two),
                           confidence=sure, inputs=distance, ratio=math.inf)  # fmt: skip
        cast = casts(self._target, more), casts(self._golden, steps)
        if (cast[0] or cast[1]) and only_casts(self._golden, steps, self._target, more):
            why = f"only the {'target' if cast[0] else 'golden run'} goes through {cast[0] or cast[1]}"
            return Suspect(golden=None if more else steps[0], target=more[0] if more else None, kind="another dtype",
                           why=why, confidence=sure, inputs=distance, ratio=math.inf)  # fmt: skip
        extra = [at for at in more if not is_cast(self._target.ops[at].name)] or more
        missing = [at for at in steps if not is_cast(self._golden.ops[at].name)] or steps
        born = distance.nan_target > distance.nan_golden
        if extra and missing and cast[0] != cast[1] and same_names(self._golden, missing, self._target, extra):
            kind = "another dtype"
            why = f"{names_of(self._target, extra)} in {cast[0] or 'full digits'} instead of {cast[1] or 'full digits'}"
        elif extra and missing:
            kind = "another formula"
            why = other_module(self._golden, missing, self._target, extra) or (
                f"{names_of(self._target, extra)} in the place of {names_of(self._golden, missing)}"
            )
        elif swapped := self._swapped(one, makers, extra, missing):
            return Suspect(golden=one.number, target=two.number, kind="another formula", why=swapped, confidence=sure,
                           inputs=distance, ratio=math.inf)  # fmt: skip
        elif extra:
            kind, why = "inserted operator", f"only the target runs {names_of(self._target, extra)}"
        elif missing and one.phase == "backward" and (gone := cut(self._target, self._pairs)) is not None:
            why = f"{names_of(self._golden, missing)} of the backward pass are missing behind this detach"
            return Suspect(golden=None, target=gone, kind="dropped gradient", why=why, confidence=sure, inputs=distance,
                           ratio=math.inf)  # fmt: skip
        elif missing:
            kind, why = "missing operator", f"only the golden run has {names_of(self._golden, missing)}"
        else:
            kind, why = "another input", f"{family(one.name)} takes another value"
        if born:
            kind = "NaN or inf born here"
        two_at = birth(self._target, extra) if born and extra else (extra[0] if extra else None)
        golden_at = missing[0] if missing else (None if extra else one.number)
        return Suspect(
            golden=golden_at, target=two_at if extra else (two.number if not missing else None), kind=kind, why=why,
            confidence=sure, inputs=distance, ratio=math.inf,
        )  # fmt: skip

    def _swapped(self, one: Op, makers: tuple[int | None, int | None], extra: list[int], missing: list[int]) -> str:
        """Words for an operator that takes the results of the same operators in other places; empty where it does not.

        What only one side runs before it, the other runs elsewhere.
        """
        step, other, alone = (self._target, self._golden, extra) if extra else (self._golden, self._target, missing)
        paired = self._mate if extra else self._other
        lonely = {family(op.name) for op in other.ops if op.number not in paired and op.phase == one.phase}
        names = [family(step.ops[at].name) for at in alone if arithmetic(step.ops[at].name) != "moves"]
        if not names or None in makers or not lonely.issuperset(names):
            return ""
        took = [
            family(run.ops[at].name)
            for run, at in zip((self._golden, self._target), makers, strict=True)
            if at is not None
        ]
        return f"{family(one.name)} takes what {took[-1]} gave in the place of {took[0]}" if len(took) == 2 else ""

    def _cast_detail(self, one: Op, two: Op) -> str:
        pairs = zip(one.inputs, two.inputs, strict=False)
        kinds = [(self._golden.values[a].dtype, self._target.values[b].dtype) for a, b in pairs]
        first = next(((a, b) for a, b in kinds if a != b), ("another type", "one type"))
        return f"{family(one.name)} takes {first[1]} instead of {first[0]}"

    def _passed(self, first: list[int], second: list[int]) -> float:
        """The largest relative distance of what goes into a block, over the pairs that both sides know."""
        mates = {}
        for number in first:
            by = self._golden.values[number].by
            if by is not None and by in self._mate:
                outputs = self._golden.ops[by].outputs
                if number in outputs:
                    mates[number] = self._target.ops[self._mate[by]].outputs[outputs.index(number) :][:1]
        found = [self._distances.of(one, two[0]).relative for one, two in mates.items() if two]
        return max((one for one in found if math.isfinite(one)), default=0.0)

    # -- arguments and gradients

    def _clear(self, different: str) -> bool:
        return self._exact or "instead of" in different

    def _tell(self, one: Op, two: Op) -> None:
        """An argument that differs is told, also where what it changes drowns in rounding."""
        if one.args == two.args or arithmetic(one.name) == "moves" or len(self._found.notes) >= MOST_NOTES:
            return
        if different := difference(one.args, two.args):
            place = f" in {one.module}" if one.module else ""
            line = f" ({one.line})" if one.line else ""
            self._found.notes.append(
                f"{family(one.name)}{place}{line}: {different}; what it changes is within what rounding explains"
            )
