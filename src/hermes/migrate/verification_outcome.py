"""Messages of a verification: its outcome, where programs ran, and what was not verified."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Word, message, sentence


class Where(Word):
    """The device on which a program ran."""

    NPU = "npu"
    STAND_IN = "stand_in"
    CPU = "cpu"
    AS_IT_IS = "as_it_is"


class Outcome(Word):
    """The outcome of a verification. Only `PASSED` and `PASSED_FILLED` mean that the conversion holds."""

    PASSED = "passed"
    PASSED_FILLED = "passed_filled"
    NOT_GIVEN = "not_given"
    NO_LOSS = "no_loss"
    NOT_RECORDED = "not_recorded"
    ORIGINAL_FAILED = "original_failed"
    ORIGINAL_VARIES = "original_varies"
    CONVERTED_VARIES = "converted_varies"
    ROUNDED = "rounded"
    DIFFERS = "differs"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    REFUSED = "refused"
    NOT_COMPUTED = "not_computed"
    HARNESS_FAILED = "harness_failed"


HOLDS = (Outcome.PASSED, Outcome.PASSED_FILLED)


@message("verify.answer")
def answer(*, outcome: Message, where: Message, losses: Message | None = None) -> None:
    """The answer of a verification."""


@message("verify.losses")
def losses(*, n: Count) -> None:
    """How many losses were compared or recorded."""


@message("verify.raised")
def raised(*, error: Name) -> None:
    """The error with which the converted program ended."""


@message("verify.differs")
def differs(*, what: Message, rank: Name, step: Count, original: Name, converted: Name) -> None:
    """The first difference of a rank between the original and the converted program."""


@message("verify.one_alone")
def one_alone(*, what: Message, rank: Name, step: Count, program: Message) -> None:
    """The first step of a rank that only one of two runs recorded."""


@message("verify.varies")
def varies(*, what: Message, rank: Name, step: Count, first: Name, second: Name) -> None:
    """The first difference of a rank between two runs of one program."""


class Recorded(Word):
    """The values that are recorded in each step."""

    LOSS = "loss"
    WEIGHTS = "weights"


NO_ORIGINAL = sentence("verify.no_original")
"""The command got no original program."""
GIVE_ORIGINAL = sentence("verify.give_original")
"""What to do if no original was given or run."""
ABOUT_STAND_IN = sentence("verify.about_stand_in")
"""What a run on the stand-in verifies, and what it does not."""


@message("verify.about_types")
def about_types(*, calls: Names) -> None:
    """Calls with data types that the support table does not list."""


TRY_ON_NPU = sentence("verify.try_on_npu")
"""What to do about calls with data types that the support table does not list."""
ABOUT_MEMORY = sentence("verify.about_memory")
"""The original reads uninitialised memory."""


@message("verify.not_written")
def not_written(*, what: Name) -> None:
    """The recorder could not record a loss or the weights."""


NEXT_STEP = sentence("verify.next")
"""What to do after a verification that holds."""
NO_COMMAND = sentence("verify.no_command")
"""No command was given."""


@message("verify.no_program")
def no_program(*, name: Name) -> None:
    """The first word of the command is not a program of this machine."""


NAME_PYTHON = sentence("verify.name_python")
"""What to do if the command's first word is no program."""
HOW_TO_CALL = sentence("verify.how_to_call")
"""How to write a command for verification."""
NOTHING_THERE = sentence("verify.nothing_there")
"""The tree to verify does not exist."""
TITLE_RUNS = sentence("verify.title.runs")
"""Title of the table of runs."""
TITLE_LOSSES = sentence("verify.title.losses")
"""Title of the table of losses."""


@message("verify.title.output")
def title_output(*, program: Message) -> None:
    """Title of the end of a program's output."""


class Program(Word):
    """The two programs of a verification."""

    ORIGINAL = "original"
    CONVERTED = "converted"


COLUMN_PROGRAM = sentence("verify.column.program")
"""Column: original or converted program."""
COLUMN_WHERE = sentence("verify.column.where")
"""Column: where the program ran."""
COLUMN_COMMAND = sentence("verify.column.command")
"""Column: the command of the program."""
COLUMN_SECONDS = sentence("verify.column.seconds")
"""Column: how many seconds the program ran."""
COLUMN_CODE = sentence("verify.column.code")
"""Column: the exit code of the program."""
COLUMN_RANK = sentence("verify.column.rank")
"""Column: the rank."""
COLUMN_STEP = sentence("verify.column.step")
"""Column: the step."""
