"""What commands say themselves: selections that match nothing, and what an input lacks."""

from __future__ import annotations

from hermes.base.message import Count, Name, Names, message, sentence

NO_TIMES_OF_THESE = sentence("cli.no_times_of_these")
LOST_ALONE = sentence("cli.lost.alone")
DO_RUN_SCRIPT = sentence("cli.do.run_script")
DO_ALL_CASES = sentence("cli.do.all_cases")


@message("cli.more_notes")
def more_notes(*, n: Count) -> None:
    """Notes on the input that are not printed."""


@message("cli.no_case")
def no_case(*, words: Names) -> None:
    """No known cause has these words."""


@message("cli.do.cases")
def do_cases(*, cases: Names) -> None:
    """Cases that may be meant."""


@message("cli.do.analyze")
def do_analyze(*, command: Name) -> None:
    """The command that says all."""
