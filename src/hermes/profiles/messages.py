"""What an analysis says of its input: what it could not do, what is lost by that, and what to do."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Rank, Ranks, Step, Steps, message, sentence

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
DO_STEP_AND_TRACE = sentence("profiles.do.step_and_trace")
DO_STEP_KNOWN = sentence("profiles.do.step_known")
DO_STEP_TWICE = sentence("profiles.do.step_twice")
DO_STEP_THREADS = sentence("profiles.do.step_threads")
DO_COPY_WHOLE = sentence("profiles.do.copy_whole")
DO_SQL = sentence("profiles.do.sql")
DO_MATRIX_SQL = sentence("profiles.do.matrix_sql")
DO_FEWER_STEPS = sentence("profiles.do.fewer_steps")
OF_ONE_PROCESS = sentence("profiles.of_one_process")
OF_SEVERAL_RUNS = sentence("profiles.of_several_runs")
NO_STEP_KERNELS = sentence("profiles.no_step_kernels")
NO_STEP_WHOLE = sentence("profiles.no_step_whole")


@message("profiles.ranks_not_there")
def ranks_not_there(*, ranks: Ranks) -> None:
    """Ranks that were asked for were not collected."""


@message("profiles.steps_not_there")
def steps_not_there(*, steps: Steps) -> None:
    """Steps that were asked for were not captured."""


@message("profiles.lost.captures")
def lost_captures(*, n: Count) -> None:
    """Lost: captures."""


@message("profiles.lost.last_waits")
def lost_last_waits(*, n: Count) -> None:
    """Lost: waits."""


@message("profiles.do.choose")
def do_choose(*, capture: Name) -> None:
    """How to choose a role."""


@message("profiles.not_at_once")
def not_at_once(*, n: Count, what: Message, chosen: Names) -> None:
    """Captures did not run together."""


@message("profiles.steps_found")
def steps_found(*, n: Count) -> None:
    """Steps were found."""


@message("profiles.empty_steps")
def empty_steps(*, steps: Steps) -> None:
    """Marks are wrong."""


@message("profiles.steps_overlap")
def steps_overlap(*, steps: Steps) -> None:
    """Marks are wrong."""


@message("profiles.step_file_contradicts")
def step_file_contradicts(*, parts: Names, says: Names, gives: Names, step: Step | None = None) -> None:
    """The profiler's own split differs."""


@message("profiles.rows_cut")
def rows_cut(*, n: Count, rank: Rank, kind: Name, kept: Count) -> None:
    """Rows of a measure are too many."""


@message("profiles.too_many_operations")
def too_many_operations(*, most: Count) -> None:
    """Collectives are too many."""


@message("profiles.pairs_cut")
def pairs_cut(*, table: Name, kept: Count, n: Count) -> None:
    """A table is cut."""


@message("profiles.names_cut")
def names_cut(*, table: Name, kept: Count, n: Count) -> None:
    """A table is cut."""


@message("profiles.roles")
def roles(*, tasks: Names, main: Name) -> None:
    """Captures are of several roles."""
