"""Messages of a setup check: each difference of two setups, how much it matters, and what to do about it."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Name, Names, Text, Word, message, sentence


class SetupSeverity(Word):
    """How much a difference of two setups matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class SetupPart(Word):
    """A part of the setup of a training run."""

    RANDOM = "random"
    DATA = "data"
    PARAMETERS = "parameters"
    OPTIMIZER = "optimizer"
    ARITHMETIC = "arithmetic"
    CONFIGURATION = "configuration"
    PACKAGES = "packages"
    ENVIRONMENT = "environment"


# -- the answer of a check

ALIKE = sentence("precision.check.alike")


@message("precision.check.minor")
def minor(*, differences: Message) -> None:
    """The setups differ, but in nothing that should change a number."""


@message("precision.check.errors")
def wrong(*, errors: Message, differences: Message) -> None:
    """The setups differ in what changes numbers."""


@message("precision.check.incomplete")
def incomplete(*, gaps: Messages) -> None:
    """The check has no error, but a part of the golden setup was not compared."""


@message("precision.check.count.errors")
def errors(*, n: Count) -> None:
    """The number of errors."""


@message("precision.check.count.differences")
def differences(*, n: Count) -> None:
    """The number of differences."""


# -- parts that were not compared


@message("precision.check.gap.part")
def lacks(*, side: Text, part: Text) -> None:
    """A snapshot lacks a part of the setup."""


@message("precision.check.gap.batches")
def lacks_batches(*, golden: Count, target: Count) -> None:
    """The target snapshot has fewer batches than the golden snapshot."""


@message("precision.check.gap.failed")
def not_whole(*, side: Text, reason: Name) -> None:
    """A part of a snapshot could not be written completely."""


NOTHING = sentence("precision.check.gap.nothing")
NO_MODEL = sentence("precision.check.gap.model")


# -- differences of two setups


@message("precision.check.value")
def value(*, name: Name, golden: Text, target: Text) -> None:
    """A setting has another value, or only one side has it."""


@message("precision.check.value.in")
def value_in(*, where: Text, name: Name, golden: Text, target: Text) -> None:
    """A setting of a group of parameters or of a loader has another value."""


@message("precision.check.given")
def given(*, value: Name) -> None:
    """The value of a setting."""


NOT_SET = sentence("precision.check.given.not")


@message("precision.check.where.group")
def group(*, number: Name) -> None:
    """A parameter group of an optimizer, by its number."""


@message("precision.check.where.loader")
def loader(*, number: Name) -> None:
    """A DataLoader, by its number."""


@message("precision.check.number")
def another_number(*, what: Text, golden: Count, target: Count) -> None:
    """The two setups have different numbers of something, such as batches."""


OPTIMIZERS = sentence("precision.check.number.optimizers")
GROUPS = sentence("precision.check.number.groups")
LOADERS = sentence("precision.check.number.loaders")


@message("precision.check.random.state")
def other_state(*, generator: Name) -> None:
    """A random generator has another state at the first batch."""


@message("precision.check.random.drew")
def drew_more(*, generator: Name) -> None:
    """A random generator has another state though the seeds are equal."""


@message("precision.check.random.later")
def drew_more_from(*, generator: Name, batch: Name) -> None:
    """A random generator has another state from a later batch on."""


@message("precision.check.random.calls")
def other_calls(*, which: Names) -> None:
    """The calls that draw random numbers differ."""


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
    """Parameters that only one side has."""


@message("precision.check.parameters.values")
def other_values(*, n: Count, which: Names) -> None:
    """Parameters whose values differ."""


@message("precision.check.parameters.shapes")
def other_shapes(*, n: Count, which: Names) -> None:
    """Parameters whose shapes differ."""


@message("precision.check.parameters.types")
def other_types(*, n: Count, which: Messages) -> None:
    """Parameters whose types differ."""


@message("precision.check.parameters.type")
def other_type(*, name: Name, golden: Name, target: Name) -> None:
    """A parameter whose type differs."""


@message("precision.check.parameters.trained")
def other_training(*, n: Count, which: Names) -> None:
    """Parameters that one side trains and the other does not."""


@message("precision.check.configuration")
def other_file(*, name: Name, lines: Names) -> None:
    """A configuration file has other lines: `-` stands before those of the golden run, `+` before the target's."""


# -- what to do about a difference


@message("precision.check.cure.seed")
def seed_all(*, seed: Name) -> None:
    """Seed all random generators."""


@message("precision.check.cure.install")
def install(*, package: Name, version: Name) -> None:
    """Install one version of a package on both sides."""


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


# -- files of snapshots

NO_SNAPSHOT = sentence("precision.check.read.none")
WRITE_ONE = sentence("precision.check.read.none.hint")
OTHER_FORMAT = sentence("precision.check.read.format")


@message("precision.check.read.unreadable")
def unreadable(*, reason: Name) -> None:
    """A file that is no snapshot, with the reading library's error text."""


@message("precision.check.read.part")
def wrong_part(*, part: Name) -> None:
    """A part of a snapshot that has an invalid form."""
