"""Messages about recordings, dumps, snapshots and commands that cannot be used or are incomplete."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Name, Names, Ranks, Step, Steps, Text, message, sentence

NO_FOLDER = sentence("precision.read.no_folder")
GIVE_A_RECORDING = sentence("precision.read.no_folder.hint")
NO_RECORDING = sentence("precision.read.no_recording")
HOW_TO_RECORD = sentence("precision.read.no_recording.hint")
NO_RANK = sentence("precision.read.no_rank")
SEE_RECORD = sentence("precision.read.no_rank.hint")
NO_HEAD = sentence("precision.read.no_head")
NO_DUMP = sentence("precision.read.no_dump")
WAS_IT_KILLED = sentence("precision.read.no_dump.hint")
NOT_ONE_DUMP = sentence("precision.read.not_one_dump")
GIVE_ONE_DUMP = sentence("precision.read.not_one_dump.hint")
NO_DATA = sentence("precision.read.no_data")
RECORD_THE_SAME = sentence("precision.read.no_common_step.hint")

THIS_RANK = sentence("precision.lost.rank")
THIS_STEP = sentence("precision.lost.step")
REST_OF_STEP = sentence("precision.lost.rest")
THEIR_CONTENT = sentence("precision.lost.content")
THEIR_ELEMENTS = sentence("precision.lost.elements")
EXACT_ELEMENTS = sentence("precision.lost.exact")
THEIR_COMPARISON = sentence("precision.lost.comparison")


@message("precision.read.no_common_step")
def no_common_step(*, golden: Steps, target: Steps) -> None:
    """Two recordings without a common step."""


@message("precision.read.only_one_side")
def only_one_side(*, side: Text, ranks: Ranks, steps: Steps) -> None:
    """Steps that only one side has."""


@message("precision.read.unreadable")
def unreadable(*, reason: Name) -> None:
    """A file that cannot be read, with the error text of the system or of a library."""


@message("precision.read.too_large")
def too_large(*, limit: Bytes) -> None:
    """A file larger than the limit."""


@message("precision.read.unread")
def unread(*, n: Count, step: Step) -> None:
    """Files that should hold one tensor each and do not."""


@message("precision.read.other_format")
def other_format(*, name: Name) -> None:
    """A recording in another version of the format."""


@message("precision.read.damaged_lines")
def damaged_lines(*, n: Count) -> None:
    """Lines of an index that are no JSON."""


@message("precision.read.damaged_entries")
def damaged_entries(*, n: Count, step: Step) -> None:
    """Lines of an index that are invalid."""


@message("precision.read.no_end")
def no_end(*, step: Step) -> None:
    """A step whose recording was cut off."""


@message("precision.read.over_limit")
def over_limit(*, n: Count, step: Step) -> None:
    """Tensors that were not recorded completely."""


# -- writing recordings and starting commands

INSIDE_RECORDING = sentence("precision.write.inside")
ANOTHER_FOLDER = sentence("precision.write.inside.hint")
TABLE_KINDS = sentence("precision.write.table")
FILE_EXISTS = sentence("precision.write.exists")
NEW_NAME = sentence("precision.write.exists.hint")
NO_OUT = sentence("precision.launch.no_out")
GIVE_OUT = sentence("precision.launch.no_out.hint")
NOT_EMPTY = sentence("precision.launch.not_empty")
NEW_FOLDER = sentence("precision.launch.not_empty.hint")


@message("precision.launch.option")
def wrong_option(*, reason: Name) -> None:
    """An option that the recorder does not accept, with the recorder's error text."""


@message("precision.launch.not_json")
def not_json(*, reason: Name) -> None:
    """A configuration file that is no JSON."""


@message("precision.launch.little_room")
def little_room(*, free: Bytes, limit: Bytes) -> None:
    """A disk with less space than the recorder may use."""


@message("precision.launch.not_started")
def not_started(*, reason: Name) -> None:
    """A command that the system cannot start."""


@message("precision.launch.ended")
def ended(*, code: Name) -> None:
    """A command that ended with an error."""


@message("precision.golden.unknown")
def unknown_arithmetic(*, name: Name, known: Names) -> None:
    """A change of the arithmetic that does not exist."""


# -- the command line

TWO_RECORDINGS = sentence("precision.cli.two")
NAME_BOTH = sentence("precision.cli.two.hint")
ONLY_DUMPS = sentence("precision.cli.columns")
USE_OUT = sentence("precision.cli.columns.hint")
NO_SNAPSHOT = sentence("precision.cli.no_snapshot")
NOTHING_RECORDED = sentence("precision.cli.nothing_recorded")


@message("precision.cli.written")
def written(*, path: Name) -> None:
    """A result was written to a file."""


@message("precision.cli.written.rows")
def written_rows(*, path: Name, n: Count) -> None:
    """A table was written to a file."""


@message("precision.cli.recorded")
def recorded(*, path: Name, steps: Steps, ranks: Message) -> None:
    """A recording of a run was written to a folder."""


@message("precision.cli.next")
def compare_next(*, path: Name) -> None:
    """What to do with a recording."""


# -- pages of a comparison

COMPARING = sentence("precision.web.comparing")
WAIT = sentence("precision.web.comparing.hint")
NONE_GIVEN = sentence("precision.web.none")
HOW_TO_GIVE = sentence("precision.web.none.hint")
NO_SUCH_PART = sentence("precision.web.part")


@message("precision.web.part.hint")
def at_once(*, n: Count) -> None:
    """How many rows may be requested at once."""


@message("precision.web.defect")
def defect(*, error: Name) -> None:
    """A defect of Hermes occurred."""
