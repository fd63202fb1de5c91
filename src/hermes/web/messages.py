"""Messages of the web server: refused requests, and data that is not there yet or no longer."""

from __future__ import annotations

from hermes.base.message import Name, Rank, message, sentence

TABLES_GONE = sentence("web.tables_gone")
LOST_TABLE = sentence("web.lost.table")
DO_RESTART = sentence("web.do.restart")
NO_SENSE = sentence("web.no_sense")
NOTHING_HERE = sentence("web.nothing_here")
LOST_ANSWER = sentence("web.lost.answer")
NO_PERFETTO = sentence("web.no_perfetto")
DO_INSTALL_PERFETTO = sentence("web.do.install_perfetto")
NO_FILE = sentence("web.no_file")
NO_JSON = sentence("web.no_json")
NO_NUMBERS = sentence("web.no_numbers")
DO_NUMBERS = sentence("web.do.numbers")
COMPARING = sentence("web.comparing")
DO_WAIT = sentence("web.do.wait")
LOST_COMPARISON = sentence("web.lost.comparison")
NO_SOURCE = sentence("web.no_source")
DO_GIVE_SOURCE = sentence("web.do.give_source")
SCANNING = sentence("web.scanning")
LOST_SCAN = sentence("web.lost.scan")
LOST_REPLAY = sentence("web.lost.replay")
NO_TASKS = sentence("web.no_tasks")
DO_NAME_RANK = sentence("web.do.name_rank")
DO_OTHER_PORT = sentence("web.do.other_port")
LOST_ANALYSIS = sentence("web.lost.analysis")
DO_ANALYZE = sentence("web.do.analyze")
ANALYSIS_GONE = sentence("web.analysis_gone")
LOST_NOT_SHOWN = sentence("web.lost.not_shown")
READING = sentence("web.reading")
INPUT_CHANGED = sentence("web.input_changed")
LOST_ITS_TABLES = sentence("web.lost.its_tables")
DO_START_AGAIN = sentence("web.do.start_again")


@message("web.defect")
def defect(*, error: Name) -> None:
    """Error: an exception that is a defect of Hermes."""


@message("web.no_run")
def no_run(*, run: Name) -> None:
    """Error: the requested run to compare with was not given."""


@message("web.no_curve")
def no_curve(*, table: Name, count: Name) -> None:
    """Error: the requested curve does not exist."""


@message("web.buckets")
def buckets(*, most: Name) -> None:
    """Error: the number of buckets is out of range."""


@message("web.no_column")
def no_column(*, column: Name, table: Name) -> None:
    """Error: a table has no such column."""


@message("web.no_times")
def no_times(*, table: Name) -> None:
    """Error: rows of a table have no place in time."""


@message("web.no_table")
def no_table(*, table: Name) -> None:
    """Error: the requested table does not exist."""


@message("web.most_rows")
def most_rows(*, most: Name) -> None:
    """Error: more rows are requested than a page takes."""


@message("web.most_changes")
def most_changes(*, most: Name, longest: Name) -> None:
    """Error: more changes are requested than are replayed at once."""


@message("web.not_in_step")
def not_in_step(*, rank: Rank) -> None:
    """Error: a rank did not run the step."""


@message("web.no_step")
def no_step(*, rank: Rank, step: Name) -> None:
    """Error: a rank did not run this step."""


@message("web.not_collected")
def not_collected(*, rank: Rank) -> None:
    """Error: the input has no such rank."""


@message("web.one_rank_at_a_time")
def one_rank_at_a_time(*, most: Name) -> None:
    """Error: too many ranks for one table."""


@message("web.no_port")
def no_port(*, why: Name) -> None:
    """Error: the server's port is in use."""
