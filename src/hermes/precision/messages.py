"""Messages of a comparison of two runs: the kind of a difference, and why an operator is to blame."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Name, Names, Number, Rank, Step, Text, Word, message, sentence


class Deviation(Word):
    """The kind of a difference between two runs."""

    ANOTHER_ARGUMENT = "another_argument"
    ANOTHER_DTYPE = "another_dtype"
    ANOTHER_FORMULA = "another_formula"
    ANOTHER_INPUT = "another_input"
    ANOTHER_RANDOMNESS = "another_randomness"
    ANOTHER_REDUCTION = "another_reduction"
    ANOTHER_SHAPE = "another_shape"
    DROPPED_GRADIENT = "dropped_gradient"
    INSERTED_OPERATOR = "inserted_operator"
    MISSING_OPERATOR = "missing_operator"
    NOT_FINITE = "not_finite"
    SCALE = "scale"


class Side(Word):
    """One of the two runs: golden or target."""

    GOLDEN = "golden"
    TARGET = "target"


class Phase(Word):
    """A phase of a training step."""

    FORWARD = "forward"
    BACKWARD = "backward"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"
    UPDATE = "update"


@message("precision.phase")
def _other_phase(*, name: Name) -> None:
    """A phase that a recording names and Hermes does not know."""


def phase(name: str) -> Message:
    """The phase of a call as a message."""
    known = next((one for one in Phase if one.value == name), None)
    return _other_phase(name=name) if known is None else known.message


# -- the answer of a comparison


@message("precision.part")
def part(*, operator: Name, rank: Rank, step: Step, phase: Text, kind: Text, why: Text,
         module: Name | None = None, line: Name | None = None) -> None:  # fmt: skip
    """Two runs part at an operator."""


@message("precision.agree.exact")
def agree_exactly(*, operators: Message, steps: Message, ranks: Message) -> None:
    """All recorded values of the golden run are the same in the target."""


@message("precision.agree.rounding")
def agree_but_for_rounding(*, operators: Message, steps: Message, ranks: Message) -> None:
    """All recorded values of the golden run are in the target, within what rounding explains."""


@message("precision.incomplete")
def incomplete(*, gaps: Messages) -> None:
    """The compared part agrees, but a part of the golden run was not compared."""


@message("precision.incomplete.nothing")
def nothing_compared(*, gaps: Messages) -> None:
    """No value of the two runs was compared."""


@message("precision.operators")
def operators(*, n: Count) -> None:
    """The number of operators."""


@message("precision.steps")
def steps(*, n: Count) -> None:
    """The number of steps."""


@message("precision.ranks")
def ranks(*, n: Count) -> None:
    """The number of ranks."""


# -- parts of the golden run that are missing


@message("precision.gap.steps")
def missing_steps(*, n: Count, rank: Rank, step: Step) -> None:
    """Golden steps that the target run lacks, with the place of the first such step."""


@message("precision.gap.operators")
def missing_operators(*, n: Count, operator: Name, module: Name | None = None, line: Name | None = None) -> None:
    """Golden operators without a counterpart whose results reach no compared value."""


@message("precision.gap.values")
def missing_values(*, n: Count, operator: Name, module: Name | None = None, line: Name | None = None) -> None:
    """Golden operators whose recorded results cannot be compared with the target's."""


@message("precision.gap.end")
def no_end(*, side: Text, rank: Rank, step: Step) -> None:
    """A step without an end: the process was stopped inside the step."""


@message("precision.gap.damaged")
def damaged(*, n: Count, rank: Rank, step: Step) -> None:
    """Lines of a golden step that cannot be read."""


NO_VALUE = sentence("precision.gap.nothing")

# -- why an operator is to blame


@message("precision.why.argument")
def other_argument(*, golden: Name, target: Name, name: Name | None = None) -> None:
    """An argument has another value."""


@message("precision.why.argument.added")
def added_argument(*, target: Name, name: Name | None = None) -> None:
    """The target gives an argument that the golden run leaves at its default."""


@message("precision.why.argument.dropped")
def dropped_argument(*, golden: Name, name: Name | None = None) -> None:
    """The golden run gives an argument that the target leaves at its default."""


@message("precision.why.elements")
def other_elements(*, change: Text) -> None:
    """A view that shows other elements of the same memory."""


@message("precision.why.dtype")
def other_dtype(*, golden: Name, target: Name) -> None:
    """A result has another type."""


@message("precision.why.dtype.taken")
def takes_dtype(*, operator: Name, golden: Name, target: Name) -> None:
    """An operator takes another type."""


@message("precision.why.dtype.input")
def input_dtype(*, what: Text, golden: Name, target: Name) -> None:
    """An input from outside has another type."""


@message("precision.why.dtype.through")
def goes_through(*, side: Text, dtype: Name) -> None:
    """Only one side casts to a type with fewer digits and back."""


@message("precision.why.dtype.computed")
def computed_in(*, operators: Text, golden: Text, target: Text) -> None:
    """The same operators run in another type."""


@message("precision.why.dtype.digits")
def fewer_digits(*, dtype: Name) -> None:
    """A result is as far off as the roundoff of a shorter type."""


@message("precision.dtype")
def named_dtype(*, dtype: Name) -> None:
    """A type by its name."""


@message("precision.why.collective")
def other_collective(*, golden: Name, target: Name) -> None:
    """One side runs a collective instead of another one."""


@message("precision.why.gradient")
def no_gradient(*, parameter: Name, side: Text) -> None:
    """Only one side has a gradient of a parameter."""


@message("precision.why.gradient.changed")
def gradient_changed(*, parameter: Name) -> None:
    """A parameter's gradient was changed after the backward pass."""


@message("precision.why.gradient.detached")
def detached(*, operators: Text) -> None:
    """Operators of the backward pass are missing because of a detach."""


@message("precision.why.not_finite")
def not_finite(*, n: Count, side: Text) -> None:
    """Elements that are NaN or infinite on only one side."""


@message("precision.why.scale")
def scaled(*, factor: Number) -> None:
    """The target is a multiple of the golden result."""


@message("precision.why.input")
def input_differs(*, what: Text, operator: Name) -> None:
    """An input that no recorded operator made differs."""


@message("precision.why.input.named")
def named_input(*, role: Name, name: Name) -> None:
    """The name of a parameter, a buffer or a batch."""


@message("precision.why.input.buffer")
def buffer_differs(*, name: Name) -> None:
    """A buffer differs before it is used."""


@message("precision.why.input.code")
def code_between(*, module: Name) -> None:
    """The code between modules computes something else on the two sides."""


@message("precision.why.input.taken")
def takes_another(*, operator: Name) -> None:
    """An operator takes another value as input."""


@message("precision.why.operators")
def in_place_of(*, golden: Text, target: Text) -> None:
    """Operators of the target replace operators of the golden run."""


@message("precision.why.operators.only_golden")
def only_golden(*, operators: Text) -> None:
    """Operators that only the golden run has."""


@message("precision.why.operators.only_target")
def only_target(*, operators: Text) -> None:
    """Operators that only the target run has."""


@message("precision.why.operators.swapped")
def swapped(*, operator: Name, golden: Name, target: Name) -> None:
    """An operator takes the result of another operator."""


@message("precision.why.operators.place")
def other_result(*, operator: Name, maker: Name, golden: Count, target: Count) -> None:
    """An operator uses another output of `maker` than before: `golden` and `target` count its outputs from 0."""


@message("precision.why.module")
def other_module(*, golden: Name, target: Name) -> None:
    """One side runs a module instead of another one."""


@message("precision.why.optimizer")
def other_step(*, share: Number) -> None:
    """The optimizer makes another step from the same gradients."""


@message("precision.names")
def names(*, which: Names) -> None:
    """A list of operators by name."""


@message("precision.names.more")
def more_names(*, which: Names, n: Count) -> None:
    """The first of many operators by name."""


RANDOM_STATE = sentence("precision.why.random")
RANDOM_UNKNOWN = sentence("precision.why.random.unknown")
COLLECTIVE_RESULT = sentence("precision.why.collective.result")
SHAPE = sentence("precision.why.shape")
RESULTS_DIFFER = sentence("precision.why.results")
UNNAMED_INPUT = sentence("precision.why.input.unnamed")
FULL_DIGITS = sentence("precision.dtype.full")
INPUTS_APART = sentence("precision.evidence.inputs")
OUTPUTS_APART = sentence("precision.evidence.outputs")


@message("precision.note.argument")
def drowned(*, operator: Name, change: Text, module: Name | None = None, line: Name | None = None) -> None:
    """An argument differs, and its effect is within what rounding explains."""
