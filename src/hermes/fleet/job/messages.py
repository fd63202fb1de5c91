"""Messages about one job on many hosts."""

from __future__ import annotations

from hermes.base.message import (
    Count,
    Message,
    Name,
    Names,
    Ns,
    Number,
    Rank,
    Ranks,
    Share,
    Step,
    Text,
    message,
    sentence,
)  # fmt: skip

RANK = sentence("fleet.column_rank")
HOST = sentence("fleet.column_host")
STEP = sentence("fleet.column_step")
OWN = sentence("fleet.column_own")
STEP_TIME = sentence("fleet.column_step_time")
COLLECTIVES = sentence("fleet.column_collectives")
DATA = sentence("fleet.column_data")
AGE = sentence("fleet.column_age")
ALIVE = sentence("fleet.column_alive")
JOB = sentence("fleet.column_job")
BASELINE = sentence("fleet.column_baseline")
WHY = sentence("fleet.column_why")
SAID = sentence("fleet.column_said")
SLOWEST_FIRST = sentence("fleet.table_slowest_first")
SILENT = sentence("fleet.table_silent")
LINE = sentence("fleet.column_line")
IN_COLLECTIVE = sentence("fleet.column_collective")
DO_READ_STACK = sentence("fleet.do_read_stack")
"""Advice for a rank that keeps the others waiting: read its stack."""
DO_LOOK_AT_LINK = sentence("fleet.do_look_at_link")
"""Advice for a broken link: measure the network."""
DO_STOP_OR_MOVE = sentence("fleet.do_stop_or_move")
"""Advice for a process that takes the cores of a rank: stop or move it."""
STATE = sentence("fleet.column_state")
FOLDER = sentence("fleet.column_folder")
REPORT = sentence("fleet.column_report")
RANKS = sentence("fleet.table_ranks")
CAPTURES = sentence("fleet.table_captures")
NOBODY_RUNS = sentence("fleet.nobody_runs")
"""Error: no host has a rank of such a job."""
DO_NAME_JOB = sentence("fleet.do_name_job")
"""Advice on how to name one job."""
DO_CHOOSE = sentence("fleet.do_choose")
"""Advice on how to choose ranks."""
REDUCING = sentence("fleet.reducing")
"""Progress: one report is made of the hosts' measurements."""
DO_STACKS = sentence("fleet.do_stacks")
"""Advice where no step ends: collect the stacks."""


@message("fleet.all_run")
def all_run(*, n: Count, hosts: Count) -> None:
    """The verdict if no rank stands out: `n` ranks run on `hosts` hosts."""


@message("fleet.no_ranks")
def no_ranks(*, n: Count) -> None:
    """The verdict if no host that answered has a rank."""


@message("fleet.job_stalled")
def job_stalled(*, job: Name, waited: Ns, last: Step) -> None:
    """The verdict if a job makes no progress."""


@message("fleet.straggler_is")
def straggler_is(*, rank: Rank, host: Name, own: Ns, others: Ns) -> None:
    """The verdict if the others wait for one rank."""


@message("fleet.straggles")
def straggles(*, rank: Rank, host: Name, own: Ns, others: Ns, more: Ns) -> None:
    """A finding: a rank has more work of its own than the others, who wait for it."""


@message("fleet.nobody_steps")
def nobody_steps(
    *, job: Name, waited: Ns, last: Step, gone: Ranks | None = None, behind: Ranks | None = None,
    hosts: Names | None = None,
) -> None:  # fmt: skip
    """A finding: no rank of a job ends a step; ended processes, ranks on an earlier step, and their hosts."""


@message("fleet.host_says")
def host_says(*, host: Name, said: Text) -> None:
    """A finding: what the watcher of one host reports about its ranks."""


@message("fleet.do_capture")
def do_capture(*, rank: Rank) -> None:
    """Advice for a straggler: capture it beside a usual rank."""


@message("fleet.hosts_silent")
def hosts_silent(*, why: Message, hosts: Names, n: Count, said: Name | None = None) -> None:
    """A note: hosts that did not answer, the reason, and the text of one host."""


@message("fleet.hosts_idle")
def hosts_idle(*, hosts: Names, n: Count) -> None:
    """A note: hosts that answered and have no rank of the job."""


@message("fleet.pods_absent")
def pods_absent(*, hosts: Names, n: Count) -> None:
    """A note: hosts of the job that do not run, according to the scheduler."""


@message("fleet.clock_ahead")
def clock_ahead(*, host: Name, off: Ns) -> None:
    """A note: the clock of a host is ahead of most others by at least `off`."""


@message("fleet.clock_behind")
def clock_behind(*, host: Name, off: Ns) -> None:
    """A note: the clock of a host is behind most others by at least `off`."""


@message("fleet.ranks_doubled")
def ranks_doubled(*, ranks: Ranks) -> None:
    """A note: several hosts claim the same ranks."""


@message("fleet.no_choice")
def no_choice(*, text: Name) -> None:
    """Error: a text does not choose ranks."""


@message("fleet.no_such_ranks")
def no_such_ranks(*, ranks: Ranks) -> None:
    """Error: no host has the chosen ranks."""


@message("fleet.several_jobs")
def several_jobs(*, names: Names) -> None:
    """Error: several jobs run on the hosts."""


@message("fleet.telling")
def telling(*, n: Count, first: Step) -> None:
    """Progress: `n` ranks are told to capture from step `first` on."""


@message("fleet.analysing")
def analysing(*, n: Count) -> None:
    """Progress: `n` hosts analyse their captures."""


@message("fleet.passed_again")
def passed_again(*, ranks: Ranks, first: Step) -> None:
    """Progress: ranks had passed the step when they heard of it, so a later step is tried."""


@message("fleet.revoked")
def revoked(*, ranks: Ranks, hosts: Names, said: Name) -> None:
    """The verdict if no rank was captured, since some ranks did not accept the capture."""


@message("fleet.not_captured")
def not_captured(*, job: Name) -> None:
    """The verdict if no rank has a trace."""


@message("fleet.captured")
def captured(*, n: Count, hosts: Count, first: Step, last: Step) -> None:
    """The verdict of a capture: `n` ranks on `hosts` hosts have a trace of these steps."""


@message("fleet.found_in_all")
def found_in_all(*, captured: Message, verdict: Text) -> None:
    """The verdict of a capture with one report: what was captured, and what bounds the whole job."""


@message("fleet.not_one_report")
def not_one_report(*, why: Text) -> None:
    """A note: there is no report of all ranks."""


@message("fleet.not_in_report")
def not_in_report(*, ranks: Ranks) -> None:
    """A note: ranks with a trace that the report of all ranks lacks."""


@message("fleet.written")
def written(*, files: Names) -> None:
    """A note: the files that were written on this host."""


@message("fleet.not_whole")
def not_whole(*, ranks: Ranks, state: Name) -> None:
    """A note: requested ranks without a trace, and their last state."""


@message("fleet.stopped")
def stopped(*, n: Count) -> None:
    """The verdict after a stop: no capture is under way on `n` hosts any more."""


@message("fleet.not_entered")
def not_entered(
    *, rank: Rank, host: Name, collective: Name, line: Name, number: Count | None = None, group: Name | None = None,
    called: Name | None = None,
) -> None:  # fmt: skip
    """A finding: the others wait in a collective that this rank has not entered, and the line where the rank stands.

    Flight recorders give the collective's number in its group, and the line where the others called it.
    """


@message("fleet.other_collective")
def other_collective(
    *, rank: Rank, host: Name, collective: Name, number: Count, group: Name, others: Name, line: Name | None = None
) -> None:
    """A finding: a rank has called another collective than the others, at the same position in their group."""


@message("fleet.waits_for_each_other")
def waits_for_each_other(
    *, rank: Rank, host: Name, collective: Name, other: Rank, line: Name | None = None
) -> None:  # fmt: skip
    """A finding: a rank is one of several that wait for each other in different collectives."""


@message("fleet.link_cut")
def link_cut(*, host: Name, n: Count, collective: Name) -> None:
    """A finding: nothing passes through a host's link, according to connections with `n` other hosts."""


@message("fleet.pair_cut")
def pair_cut(*, host: Name, other: Name, collective: Name) -> None:
    """A finding: nothing passes between two hosts."""


@message("fleet.process_gone")
def process_gone(*, rank: Rank, host: Name, last: Step) -> None:
    """A finding: the process of a rank has ended, and the others wait for it."""


@message("fleet.all_wait")
def all_wait(*, collective: Name, n: Count) -> None:
    """The verdict if all ranks wait in a collective."""


@message("fleet.all_wait_for_silent")
def all_wait_for_silent(*, collective: Name, hosts: Names) -> None:
    """The verdict if all ranks that answered wait in a collective, and some hosts did not answer."""


@message("fleet.stands_still")
def stands_still(*, n: Count) -> None:
    """The verdict if no rank makes progress, and none waits in a collective."""


@message("fleet.steps_go_on")
def steps_go_on(*, n: Count) -> None:
    """The verdict if ranks make progress: the stacks show one moment."""


@message("fleet.job_ended")
def job_ended(*, ago: Ns) -> None:
    """The verdict on a job that has ended; its watchers stored its stacks `ago` before."""


@message("fleet.no_stacks")
def no_stacks(*, ranks: Ranks) -> None:
    """A note: ranks that could not be asked for stacks."""


@message("fleet.stack_of")
def stack_of(*, rank: Rank, host: Name) -> None:
    """The title of the section with a rank's stacks."""


DO_PROMETHEUS = sentence("fleet.do_prometheus")
"""Advice on how to write the address of a Prometheus."""


@message("fleet.no_prometheus")
def no_prometheus(*, why: Name) -> None:
    """Error: no Prometheus answers at that address."""


@message("fleet.foreign_process")
def foreign_process(
    *, host: Name, pid: Name, command: Name, owner: Name, cores: Number, age: Ns, gain: Ns, risen: Ns | None = None
) -> None:
    """A finding: a process takes cores while a rank waits for cores; since when, and the gain of stopping the
    process."""


@message("fleet.waits_for_cores")
def waits_for_cores(*, host: Name, rank: Rank, delay: Ns, risen: Ns | None = None) -> None:
    """A finding: a rank waits for cores, but no process that takes them is visible."""


@message("fleet.pressed")
def pressed(*, host: Name, resource: Name, share: Share, others: Share) -> None:
    """A finding: tasks of a host wait for a resource far longer than on other hosts."""


@message("fleet.counts_errors")
def counts_errors(*, host: Name, n: Count, kind: Name) -> None:
    """A finding: a host counts errors that other hosts do not."""


@message("fleet.slow_clock")
def slow_clock(*, host: Name, device: Name, mhz: Count, others: Count) -> None:
    """A finding: a device runs at a lower clock rate than the devices of other hosts."""


@message("fleet.hot")
def hot(*, host: Name, device: Name, degrees: Count, others: Count) -> None:
    """A finding: a device is hotter than the devices of other hosts."""
