"""Messages of the commands: selections that match nothing, and data that an input lacks."""

from __future__ import annotations

from hermes.base.message import Count, Name, Names, message, sentence

NO_TIMES_OF_THESE = sentence("cli.no_times_of_these")
LOST_ALONE = sentence("cli.lost.alone")
DO_RUN_SCRIPT = sentence("cli.do.run_script")
DO_ALL_CASES = sentence("cli.do.all_cases")
COLUMN_CHIP = sentence("cli.column.chip")
COLUMN_FP16 = sentence("cli.column.fp16")
COLUMN_FP32 = sentence("cli.column.fp32")
COLUMN_MEMORY = sentence("cli.column.memory")
COLUMN_BANDWIDTH = sentence("cli.column.bandwidth")
COLUMN_LINKS = sentence("cli.column.links")
COLUMN_TYPE = sentence("cli.column.type")
COLUMN_MATRIX = sentence("cli.column.matrix")
COLUMN_VECTOR = sentence("cli.column.vector")
TITLE_CHIPS = sentence("cli.title.chips")
TITLE_RATES = sentence("cli.title.rates")
TITLE_SOURCES = sentence("cli.title.sources")


@message("cli.more_notes")
def more_notes(*, n: Count) -> None:
    """Says how many notes on the input are not printed."""


@message("cli.no_case")
def no_case(*, words: Names) -> None:
    """Error: no known cause has these words."""


@message("cli.no_chip")
def no_chip(*, name: Name) -> None:
    """Error: no known chip has this name."""


@message("cli.do.chips")
def do_chips(*, chips: Names) -> None:
    """Hint: chips with similar names."""


@message("cli.known_chips")
def known_chips(*, n: Count) -> None:
    """Says how many chips are listed."""


@message("cli.one_chip")
def one_chip(*, chip: Name, vendor: Name, n: Count) -> None:
    """A chip's line: its name, its maker, and its number of cores."""


@message("cli.do.cases")
def do_cases(*, cases: Names) -> None:
    """Hint: cases with similar words."""


@message("cli.do.analyze")
def do_analyze(*, command: Name) -> None:
    """Hint: the command that prints all notes."""
