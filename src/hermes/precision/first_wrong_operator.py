"""Walks two aligned steps and names the first operator whose inputs agree within noise and whose outputs do not."""

from __future__ import annotations

import math
from dataclasses import replace

from hermes.base.message import Message
from hermes.precision import messages as say
from hermes.precision.align_operators import align_operators
from hermes.precision.argument_changes import difference
from hermes.precision.distance import Distance, Distances
from hermes.precision.judgement_rows import (
    MOST_NOTES,
    Judgement,
    OperatorRow,
    OperatorState,
    StepBefore,
    Suspect,
    SuspicionGround,
    badness,
    median_of,
)
from hermes.precision.messages import Deviation, Side
from hermes.precision.missing_operators import missing_operators, recorded
from hermes.precision.one_sided_blocks import OneSidedBlocks
from hermes.precision.operator_names import arithmetic, family, is_collective, keeps_order, overwrites
from hermes.precision.operator_signs import (
    detach_only_in_target,
    dropped,
    far_beyond,
    first_infinity,
    gives_infinity,
    inputs_agree,
    kind_of,
    only_rounding,
    other_place,
    other_result,
    root_maker,
    sources,
    suspect,
    unfilled,
)
from hermes.precision.read.tensors import Files
from hermes.precision.recorded_step import OperatorCall, RecordedStep, RecordedValue
from hermes.precision.rounding_tolerance import RoundingTolerance, roundoff
from hermes.precision.unrecorded_operators import InnerDistances, other_step

_DRIFT = 10.0
_MOST_BLAMED = 200
_CARRIED = 1e-6
_BUFFER = 1e-2


def compare_step(
    golden: RecordedStep,
    target: RecordedStep,
    files: Files,
    *,
    before: StepBefore,
    repeated: dict[int, float] | None = None,
    jobs: int = 1,
) -> Judgement:
    """Compare one step of one rank; large tensors are compared by `jobs` processes."""
    return _Judge(golden, target, files, before, repeated, jobs).run()


class _Judge:
    def __init__(
        self,
        golden: RecordedStep,
        target: RecordedStep,
        files: Files,
        before: StepBefore,
        repeated: dict[int, float] | None,
        jobs: int,
    ) -> None:
        self._golden = golden
        self._target = target
        self._before = before
        self._noise = RoundingTolerance(golden, target, repeated)
        self._distances = Distances(golden, target, files, jobs)
        self._pairs = align_operators(golden, target)
        self._mate = {one: two for one, two in self._pairs if one is not None and two is not None}
        self._other = {two: one for one, two in self._mate.items()}
        self._found = Judgement(rank=golden.rank, step=golden.step, golden=golden, target=target)
        self._exact = True
        self._collectives = 0
        self._seen: set[tuple[int, int]] = set()
        self._inner = InnerDistances(golden)
        self._unfilled = unfilled(golden), unfilled(target)
        self._blocks = OneSidedBlocks(golden, target, self._pairs, self._distances, files)
        self._compared: set[int] = set()
        self._unknown: list[int] = []

    def run(self) -> Judgement:
        """The rows of all operators, and the suspects."""
        wanted = []
        for one, two in self._mate.items():
            a, b = self._golden.ops[one], self._target.ops[two]
            wanted += list(zip(a.inputs, b.inputs, strict=False)) + list(zip(a.outputs, b.outputs, strict=False))
        self._distances.prepare(wanted)
        for at, (golden, target) in enumerate(self._pairs):
            if golden is not None and target is not None:
                self._pair(at, self._golden.ops[golden], self._target.ops[target])
            else:
                state = OperatorState.ONLY_GOLDEN if target is None else OperatorState.ONLY_TARGET
                self._found.rows.append(OperatorRow(golden=golden, target=target, state=state))
                self._other_collective(at)
        step = None if self._found.suspects else other_step(self._golden, self._target, self._mate, self._distances)
        if step is not None:
            row = next(at for at, (one, _) in enumerate(self._pairs) if one == step.golden)
            self._found.suspects.append(replace(step, at=row))
            self._found.rows[row] = self._found.rows[row]._replace(state=OperatorState.BLAMED)
        if not self._found.suspects:
            self._found.missing = missing_operators(
                self._golden, self._target, self._mate, self._compared, self._unknown
            )
        self._found.drift = median_of(self._found.updates) if self._found.updates else self._before.drift
        return self._found

    def _other_collective(self, at: int) -> None:
        """Blame a collective that one side runs instead of another one, if the results differ."""
        sides = [*self._pairs[max(at - 1, 0) : at + 1]]
        golden = next((self._golden.ops[one] for one, two in sides if two is None and one is not None), None)
        target = next((self._target.ops[two] for one, two in sides if one is None and two is not None), None)
        if golden is None or target is None or not (is_collective(golden.name) and is_collective(target.name)):
            return
        apart = [self._distances.of(*pair) for pair in zip(golden.outputs, target.outputs, strict=False)]
        if all(one.equal or one.known == "none" for one in apart):
            return
        why = say.other_collective(golden=family(golden.name), target=family(target.name))
        self._found.suspects.append(
            Suspect(golden=golden.number, target=target.number, kind=Deviation.ANOTHER_REDUCTION, why=why, at=at,
                    ground=self._ground, outputs=max(apart, key=badness), collectives=self._collectives, ratio=math.inf)
        )  # fmt: skip

    @property
    def _ground(self) -> SuspicionGround:
        return SuspicionGround.EXACT if self._exact else SuspicionGround.ROUNDING

    # -- one pair of operators

    def _pair(self, at: int, one: OperatorCall, two: OperatorCall) -> None:
        of = self._distances.of
        read = self._read(one, two)
        inputs = [of(*pair) for pair in read]
        outputs = [of(*pair) for pair in self._filled(list(zip(one.outputs, two.outputs, strict=False)))]
        self._meet(one, two, read, inputs, outputs)
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
        blamed = suspect is not None and suspect.golden == one.number
        state = OperatorState.BLAMED if blamed else OperatorState.AGREE if agree else OperatorState.DIFFER
        apart = worst.relative if worst is not None else 0.0
        if state is OperatorState.AGREE and apart > _CARRIED and (self._found.suspects or ratio > 1):
            state = OperatorState.CARRIED
        self._found.rows.append(
            OperatorRow(golden=one.number, target=two.number, inputs=worst_in, outputs=worst, tolerance=tolerance,
                ratio=ratio,
                state=state)
        )  # fmt: skip
        if suspect is not None and len(self._found.suspects) < _MOST_BLAMED:
            self._found.suspects.append(replace(suspect, at=at, collectives=self._collectives))
        self._inner.add(one, inputs, outputs)
        if self._exact and any(not one.equal and one.known != "none" for one in outputs):
            self._exact = False
        if one.phase == "update" and worst is not None:
            self._found.updates[one.parameter] = worst.relative

    def _meet(
        self,
        one: OperatorCall,
        two: OperatorCall,
        read: list[tuple[int, int]],
        inputs: list[Distance],
        outputs: list[Distance],
    ) -> None:
        """Note which golden values were compared, and whether an operator has a result that was not."""
        pairs = self._filled(list(zip(one.outputs, two.outputs, strict=False)))
        for (number, _), distance in zip([*read, *pairs], [*inputs, *outputs], strict=True):
            if distance.known != "none" or distance.what:
                self._compared.add(number)
        # A result that another operator made is judged at that operator.
        results = [number for number, _ in pairs] + list(one.outputs[len(two.outputs) :])
        if any(number not in self._compared and recorded(self._golden.values[number]) for number in results):
            self._unknown.append(one.number)

    def _read(self, one: OperatorCall, two: OperatorCall) -> list[tuple[int, int]]:
        """Pairs of inputs that the operators read, without overwritten inputs and without uninitialised memory."""
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
        self, one: OperatorCall, two: OperatorCall, outputs: list[Distance], inputs: list[Distance]
    ) -> tuple[float, Distance | None, float]:
        if not outputs:
            return 0.0, None, 0.0
        if one.phase in ("gradient", "update"):
            # These operators show values that other operators made; only the makers can be to blame.
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
        self, at: int, one: OperatorCall, two: OperatorCall, inputs: list[Distance], out: Distance | None, ratio: float
    ) -> Suspect | None:
        if one.phase == "gradient" and len(one.outputs) != len(two.outputs):
            side = Side.TARGET if one.outputs else Side.GOLDEN
            return dropped(one, two, side, detach_only_in_target(self._target, self._pairs))
        if ratio <= 1 and one.phase != "gradient" and (out is None or not out.what) and one.args == two.args:
            return None
        different = difference(one.args, two.args)
        inputs_fine = inputs_agree(inputs) or only_rounding(inputs, ratio)
        inputs_fine = inputs_fine or (different is not None and out is not None and far_beyond(inputs, out))
        meant = gives_infinity(one) and gives_infinity(two)
        if not self._found.suspects and out is not None and first_infinity(inputs, out) and not meant:
            inputs_fine = True
        if not inputs_fine or out is None or self._inner.explains(one, out):
            return None
        bad = ratio > 1
        if different and not out.equal and arithmetic(one.name) != "moves":
            return suspect(one, two, Deviation.ANOTHER_ARGUMENT, different.message, inputs, out, ratio)
        if out.what == "dtype" and not any(one.what == "dtype" for one in inputs):
            kinds = [step.values[op.outputs[0]].dtype for step, op in ((self._golden, one), (self._target, two))]
            why = say.other_dtype(golden=kinds[0], target=kinds[1])
            return suspect(one, two, Deviation.ANOTHER_DTYPE, why, inputs, out, ratio)
        if different and other_place(self._golden, self._target, one, two) and inputs_agree(inputs):
            why = say.other_elements(change=different.message)
            return suspect(one, two, Deviation.ANOTHER_ARGUMENT, why, inputs, out, math.inf)
        if not bad or one.phase in ("gradient", "update"):
            return self._inner.gradient(one, two, out)
        if slight := difference(one.args, two.args, same=0.0):
            return suspect(one, two, Deviation.ANOTHER_ARGUMENT, slight.message, inputs, out, ratio)
        block = self._unknown_source(one, two, inputs)
        return block or suspect(one, two, *kind_of(one, two, out, different), inputs, out, ratio)

    def _unknown_source(self, one: OperatorCall, two: OperatorCall, inputs: list[Distance]) -> Suspect | None:
        """Blame a block before an input whose distance was not recorded, such as that of a slice."""
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
                    return self._blocks.blame(one, two, makers, (steps, more), distance, self._ground)
        return None

    # -- inputs of an operator

    def _inputs_to_blame(
        self, one: OperatorCall, two: OperatorCall, read: list[tuple[int, int]], inputs: list[Distance]
    ) -> Suspect | None:
        """Blame for an input that differs though its maker has no counterpart: a block of operators, or a value from
        outside."""
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

    def _source(
        self, one: OperatorCall, two: OperatorCall, pair: tuple[int, int], distance: Distance
    ) -> Suspect | None:
        first, second = self._golden.values[pair[0]], self._target.values[pair[1]]
        makers = first.by, second.by
        if makers[0] is not None and makers[1] is not None and self._mate.get(makers[0]) == makers[1]:
            return other_result(self._golden, self._target, one, two, pair, self._exact)
        if makers == (None, None):
            # An operation that was not recorded, such as a view, may have made the input from a value that differs.
            carried = self._found.suspects and not first.name and not self._golden.whole
            return None if carried else self._outside(one, two, first, distance)
        return self._blocks.judge(one, two, makers, distance, self._ground)

    def _outside(
        self, one: OperatorCall, two: OperatorCall, value: RecordedValue, distance: Distance
    ) -> Suspect | None:
        """Blame a value that no recorded operator made: a parameter, a buffer, a batch or a constant."""
        before = self._before
        if one.phase == "optimizer" and not before.begins:
            return None  # its state comes from earlier steps
        if one.phase == "gradient" or (one.phase == "backward" and not value.name):
            return None  # the forward pass that kept it was before the recording
        allowed = max(16 * roundoff(value.dtype), _DRIFT * before.drift)
        if value.name in before.updates:
            allowed = max(allowed, 2 * before.updates[value.name])
        elif before.first and not before.begins and value.role:
            allowed = max(allowed, 0.05)
        elif value.role == "buffer" and before.drift:
            # The average of values near zero is mostly rounding, and the average of a layer's parameters is as far off
            # as these parameters: an optimizer makes whole steps from gradients that are only rounding.
            allowed = max(allowed, _BUFFER, min(2 * max(before.updates.values(), default=0.0), 0.5))
        bad = distance.nan_golden != distance.nan_target or bool(distance.what)
        if distance.relative <= allowed and not bad:
            return None
        kind, why = self._of_input(one, two, value, distance)
        return Suspect(
            golden=one.number, target=two.number, kind=kind, why=why, ground=self._ground, inputs=distance
        )  # fmt: skip

    def _of_input(
        self, one: OperatorCall, two: OperatorCall, value: RecordedValue, distance: Distance
    ) -> tuple[Deviation, Message]:
        name = say.named_input(role=value.role, name=value.name) if value.name else say.UNNAMED_INPUT
        if distance.what == "dtype":
            why = say.input_dtype(what=name, golden=value.dtype, target=self._dtype_of(two, value, one))
            return Deviation.ANOTHER_DTYPE, why
        if value.role == "buffer":
            return Deviation.ANOTHER_INPUT, say.buffer_differs(name=value.name)
        if code := self._inner.between(one, value):
            return Deviation.ANOTHER_FORMULA, code
        return Deviation.ANOTHER_INPUT, say.input_differs(what=name, operator=family(one.name))

    def _dtype_of(self, two: OperatorCall, value: RecordedValue, one: OperatorCall) -> str:
        at = list(one.inputs).index(value.number)
        return self._target.values[two.inputs[at]].dtype

    # -- arguments and gradients

    def _tell(self, one: OperatorCall, two: OperatorCall) -> None:
        """Note an argument that differs, even if rounding hides its effect."""
        if one.args == two.args or arithmetic(one.name) == "moves" or len(self._found.notes) >= MOST_NOTES:
            return
        if different := difference(one.args, two.args):
            note = say.drowned(
                operator=family(one.name), change=different.message, module=one.module or None, line=one.line or None
            )
            self._found.notes.append(note)
