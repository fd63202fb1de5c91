"""Messages about an input: what could not be analysed, what is lost because of it, and what to do."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Rank, Ranks, Step, Steps, Text, message, sentence

LOST_THIS_RANK = sentence("profiles.lost.this_rank")
LOST_ASKED_RANKS = sentence("profiles.lost.asked_ranks")
LOST_ASKED_STEPS = sentence("profiles.lost.asked_steps")
LOST_RANK_TRUST = sentence("profiles.lost.rank_trust")
LOST_SPLIT_BY_STEPS = sentence("profiles.lost.split_by_steps")
LOST_HOST_BY_STEPS = sentence("profiles.lost.host_by_steps")
LOST_WORK_IN_STEPS = sentence("profiles.lost.work_in_steps")
LOST_OWNER = sentence("profiles.lost.owner")
DO_NAME_FILE = sentence("profiles.do.name_file")
DO_STEP = sentence("profiles.do.step")
DO_STEP_BY_FRAMEWORK = sentence("profiles.do.step_by_framework")
DO_STEP_AND_TRACE = sentence("profiles.do.step_and_trace")
DO_STEP_KNOWN = sentence("profiles.do.step_known")
DO_STEP_TWICE = sentence("profiles.do.step_twice")
DO_STEP_THREADS = sentence("profiles.do.step_threads")
DO_COPY_WHOLE = sentence("profiles.do.copy_whole")
DO_SQL = sentence("profiles.do.sql")
DO_MATRIX_SQL = sentence("profiles.do.matrix_sql")
MEMORY_SHORT = sentence("profiles.memory_short")
DO_FEWER_STEPS = sentence("profiles.do.fewer_steps")
OF_ONE_PROCESS = sentence("profiles.of_one_process")
OF_SEVERAL_RUNS = sentence("profiles.of_several_runs")
NO_STEP_KERNELS = sentence("profiles.no_step_kernels")
NO_STEP_WHOLE = sentence("profiles.no_step_whole")
NO_FILE = sentence("profiles.no_file")
DO_GIVE_WRITTEN = sentence("profiles.do.give_written")
NONE_OF_RANKS = sentence("profiles.none_of_ranks")
LOST_THIS_CAPTURE = sentence("profiles.lost.this_capture")
DO_KILLED_PROFILER = sentence("profiles.do.killed_profiler")
NONE_OF_STEPS = sentence("profiles.none_of_steps")
DO_NO_STEPS = sentence("profiles.do.no_steps")
DO_NO_STEP_MARKED = sentence("profiles.do.no_step_marked")
NOTHING_IN_PART = sentence("profiles.nothing_in_part")
DO_ASK_FOR_MORE = sentence("profiles.do.ask_for_more")
DO_ASK_FOR_LESS = sentence("profiles.do.ask_for_less")
DO_SEE_SCHEMA = sentence("profiles.do.see_schema")
DO_SELECT = sentence("profiles.do.select")


@message("profiles.ranks_not_there")
def ranks_not_there(*, ranks: Ranks) -> None:
    """Message: ranks that the user asked for were not collected."""


@message("profiles.steps_not_there")
def steps_not_there(*, steps: Steps) -> None:
    """Message: steps that the user asked for were not captured."""


@message("profiles.lost.captures")
def lost_captures(*, n: Count) -> None:
    """Message: how many captures are lost to the analysis."""


@message("profiles.lost.last_waits")
def lost_last_waits(*, n: Count) -> None:
    """Message: how many of the last waits are lost to the analysis."""


@message("profiles.do.choose")
def do_choose(*, capture: Name) -> None:
    """Hint: how to choose the captures of one role."""


@message("profiles.not_at_once")
def not_at_once(*, n: Count, what: Message, chosen: Names) -> None:
    """Message: captures without a recorded rank did not run at the same time."""


@message("profiles.steps_found")
def steps_found(*, n: Count) -> None:
    """Message: how many steps were found."""


@message("profiles.empty_steps")
def empty_steps(*, steps: Steps) -> None:
    """Message: steps are empty, so the step marks are wrong."""


@message("profiles.steps_overlap")
def steps_overlap(*, steps: Steps) -> None:
    """Message: steps overlap, so the step marks are wrong."""


@message("profiles.step_file_contradicts")
def step_file_contradicts(*, parts: Names, says: Names, gives: Names, step: Step | None = None) -> None:
    """Message: the profiler's own split of the step differs from Hermes' split."""


@message("profiles.rows_cut")
def rows_cut(*, n: Count, rank: Rank, kind: Name, kept: Count) -> None:
    """Message: a measure has too many rows, and only some are kept."""


@message("profiles.too_many_operations")
def too_many_operations(*, most: Count) -> None:
    """Message: the capture has too many collectives."""


@message("profiles.pairs_cut")
def pairs_cut(*, table: Name, kept: Count, n: Count) -> None:
    """Message: a table of pairs of ranks is cut to its largest rows."""


@message("profiles.names_cut")
def names_cut(*, table: Name, kept: Count, n: Count) -> None:
    """Message: a table of names is cut to its largest rows."""


@message("profiles.roles")
def roles(*, tasks: Names, main: Name) -> None:
    """Message: the captures belong to several roles, and one role is reported."""


@message("profiles.no_answer_of_rank")
def no_answer_of_rank(*, rank: Rank) -> None:
    """Message: a rank on another machine could not be asked, or its answer is invalid."""


@message("profiles.do.ranks")
def do_ranks(*, ranks: Name) -> None:
    """Hint: which ranks were collected."""


@message("profiles.do.have_ranks")
def do_have_ranks(*, ranks: Name) -> None:
    """Hint: which ranks the input has."""


@message("profiles.do.steps")
def do_steps(*, steps: Name) -> None:
    """Hint: which steps were captured."""


@message("profiles.do.steps_from_to")
def do_steps_from_to(*, first: Name, last: Name) -> None:
    """Hint: the first and last step that were captured."""


@message("profiles.nothing_in_capture")
def nothing_in_capture(*, said: Text | None = None) -> None:
    """Message: a capture has no row, with what its notes say about the reason."""


@message("profiles.both")
def both(*, first: Text, then: Text) -> None:
    """Two messages joined into one."""


@message("profiles.more_like_it")
def more_like_it(*, what: Text, others: Name) -> None:
    """Message: why the first of several files could not be read, and how many other files failed."""


@message("profiles.query_too_long")
def query_too_long(*, seconds: Name) -> None:
    """Message: a query took too long and was ended."""


@message("profiles.statement_refused")
def statement_refused(*, statement: Name) -> None:
    """Message: a query was refused because it would write."""
