"""What a check of two setups says: what differs, how much that matters, and what to do about it."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Name, Names, Text, Word, message, sentence


class SetupSeverity(Word):
    """How much a difference of two setups matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class SetupPart(Word):
    """A part of how a run is set up."""

    RANDOM = "random"
    DATA = "data"
    PARAMETERS = "parameters"
    OPTIMIZER = "optimizer"
    ARITHMETIC = "arithmetic"
    CONFIGURATION = "configuration"
    PACKAGES = "packages"
    ENVIRONMENT = "environment"


# -- the answer

ALIKE = sentence("precision.check.alike")


@message("precision.check.minor")
def minor(*, differences: Message) -> None:
    """Nothing that should change a number differs."""


@message("precision.check.errors")
def wrong(*, errors: Message, differences: Message) -> None:
    """The setups differ in what changes numbers."""


@message("precision.check.incomplete")
def incomplete(*, gaps: Messages) -> None:
    """No error, but a part of the golden setup was not compared."""


@message("precision.check.count.errors")
def errors(*, n: Count) -> None:
    """How many errors."""


@message("precision.check.count.differences")
def differences(*, n: Count) -> None:
    """How many differences."""


# -- what was not compared


@message("precision.check.gap.part")
def lacks(*, side: Text, part: Text) -> None:
    """A snapshot has nothing of a part."""


@message("precision.check.gap.batches")
def lacks_batches(*, golden: Count, target: Count) -> None:
    """The target saw fewer batches."""


@message("precision.check.gap.failed")
def not_whole(*, side: Text, reason: Name) -> None:
    """A part of a snapshot could not be made."""


NOTHING = sentence("precision.check.gap.nothing")
NO_MODEL = sentence("precision.check.gap.model")


# -- what differs


@message("precision.check.value")
def value(*, name: Name, golden: Text, target: Text) -> None:
    """A setting has another value, or stands on one side alone."""


@message("precision.check.value.in")
def value_in(*, where: Text, name: Name, golden: Text, target: Text) -> None:
    """A setting of a group of parameters or of a loader has another value."""


@message("precision.check.given")
def given(*, value: Name) -> None:
    """The value of a setting."""


NOT_SET = sentence("precision.check.given.not")


@message("precision.check.where.group")
def group(*, number: Name) -> None:
    """A group of parameters of an optimizer, by its number."""


@message("precision.check.where.loader")
def loader(*, number: Name) -> None:
    """A DataLoader, by its number."""


@message("precision.check.number")
def another_number(*, what: Text, golden: Count, target: Count) -> None:
    """There are more or fewer of something."""


OPTIMIZERS = sentence("precision.check.number.optimizers")
GROUPS = sentence("precision.check.number.groups")
LOADERS = sentence("precision.check.number.loaders")


@message("precision.check.random.state")
def other_state(*, generator: Name) -> None:
    """A generator is in another state at the first batch."""


@message("precision.check.random.drew")
def drew_more(*, generator: Name) -> None:
    """A generator is in another state though the seeds are equal."""


@message("precision.check.random.later")
def drew_more_from(*, generator: Name, batch: Name) -> None:
    """A generator is in another state from a later batch on."""


@message("precision.check.random.calls")
def other_calls(*, which: Names) -> None:
    """Calls that draw random numbers differ."""


@message("precision.check.data.tensors")
def other_tensors(*, batch: Name) -> None:
    """A batch has another number of tensors."""


@message("precision.check.data.shape")
def batch_shape(*, batch: Name, tensor: Name, golden: Name, target: Name) -> None:
    """A tensor of a batch has another shape."""


@message("precision.check.data.dtype")
def batch_dtype(*, batch: Name, tensor: Name, golden: Name, target: Name) -> None:
    """A tensor of a batch has another type."""


@message("precision.check.data.order")
def other_order(*, batch: Name, tensor: Name) -> None:
    """A tensor of a batch holds the same elements in another order."""


@message("precision.check.data.elements")
def other_elements(*, batch: Name, tensor: Name) -> None:
    """A tensor of a batch holds other elements, or has other statistics."""


@message("precision.check.parameters.only")
def only_parameters(*, side: Text, n: Count, which: Names) -> None:
    """Parameters of one side alone."""


@message("precision.check.parameters.values")
def other_values(*, n: Count, which: Names) -> None:
    """Parameters with other values."""


@message("precision.check.parameters.shapes")
def other_shapes(*, n: Count, which: Names) -> None:
    """Parameters with other shapes."""


@message("precision.check.parameters.types")
def other_types(*, n: Count, which: Messages) -> None:
    """Parameters with other types."""


@message("precision.check.parameters.type")
def other_type(*, name: Name, golden: Name, target: Name) -> None:
    """A parameter with another type."""


@message("precision.check.parameters.trained")
def other_training(*, n: Count, which: Names) -> None:
    """Parameters that one side trains and the other does not."""


@message("precision.check.configuration")
def other_file(*, name: Name, lines: Names) -> None:
    """A configuration file has other lines: `-` stands before those of the golden run, `+` before the target's."""


# -- what to do


@message("precision.check.cure.seed")
def seed_all(*, seed: Name) -> None:
    """Seed all generators."""


@message("precision.check.cure.install")
def install(*, package: Name, version: Name) -> None:
    """Install one version on both sides."""


@message("precision.check.cure.variable")
def set_variable(*, name: Name) -> None:
    """Set an environment variable on both sides."""


LOOK_FOR_RANDOM = sentence("precision.check.cure.random")
SAME_DATA = sentence("precision.check.cure.data")
SAME_MODEL = sentence("precision.check.cure.model")
SAME_CHECKPOINT = sentence("precision.check.cure.checkpoint")
SAME_DTYPE = sentence("precision.check.cure.dtype")
SAME_FROZEN = sentence("precision.check.cure.frozen")
SAME_OPTIMIZER = sentence("precision.check.cure.optimizer")
SAME_VALUE = sentence("precision.check.cure.value")
SAME_POLICY = sentence("precision.check.cure.policy")
SAME_LOADING = sentence("precision.check.cure.loading")
SAME_FILE = sentence("precision.check.cure.file")
SNAPSHOT_AGAIN = sentence("precision.check.cure.snapshot")
CHECK_AGAIN = sentence("precision.check.verify")


# -- files

NO_SNAPSHOT = sentence("precision.check.read.none")
WRITE_ONE = sentence("precision.check.read.none.hint")
OTHER_FORMAT = sentence("precision.check.read.format")


@message("precision.check.read.unreadable")
def unreadable(*, reason: Name) -> None:
    """A file that is no snapshot, in the words of the library that reads it."""


@message("precision.check.read.part")
def wrong_part(*, part: Name) -> None:
    """A part of a snapshot that is not what it should be."""
